"""Events of ROOT and Parquet files, brought into the layout of covad by a mapping.

`mapping.py` is the mapping file, `expressions.py` its language, `columns.py` numbers and lists of numbers.
`tables.py` is what files of any format offer, `root_trees.py` and `parquet_tables.py` the two formats,
`reading.py` opens either. `recipe.py` is the mapping applied to a piece of a file, `padding.py` lists into
slots, `survey.py` what is found before the conversion, `blocks.py` rows as events, `convert.py` the whole
way, `describe.py` what a file holds and which ready mapping fits.
"""
