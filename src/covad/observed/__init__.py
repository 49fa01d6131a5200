"""One observed event file against a finished run: what `covad test` computes.

`examine` gives an `Observation`. What the user has to guarantee is in docs/how-to/test-observed-data.md:
above all, that no observed event is among the events the run was made from.
"""
