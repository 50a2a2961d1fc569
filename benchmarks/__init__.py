"""
How fast: workloads made here, measured against a limit of the same process.
"""
