"""The audit of a plan, with the installed code: replay, noise, canaries, positive controls.

It works on invented rows in a folder of its own.  It never reads the source or the secret part of the store,
and it spends nothing.
"""
