"""Events of ROOT and Parquet files, brought into the layout of covad by a mapping.

`mapping.py` is the mapping file, `expressions.py` its language, `columns.py` numbers and lists of numbers,
`reading.py` the files, `recipe.py` the mapping applied to a piece of a file, `padding.py` lists into slots,
`convert.py` the whole way, `describe.py` what a file holds and which ready mapping fits.
"""
