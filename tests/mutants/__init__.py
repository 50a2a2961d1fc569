"""
Faults planted on purpose, one at a time: a test that cannot fail proves nothing.
"""
