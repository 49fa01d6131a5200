"""What toys say: p-values and significances, power, closure, goodness of fit, the clip, the closure reach.

Pure functions of arrays of t: nothing here draws events or fits. Monte Carlo inside a test of goodness of fit
runs on a seeded generator of its own. A toy that failed is not a number: arrays that hold NaN are refused.
"""
