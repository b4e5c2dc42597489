"""Denoised series: a state-space model of the true values, with the noise covariance that the plan fixes.

Post-processing of published measurements: it costs no privacy loss.  Its intervals hold if the model holds.
"""
