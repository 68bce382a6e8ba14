"""Measurements: ``python -m benchmarks`` runs every file here, ``python -m benchmarks by-hand`` one of them.

What ``measured()`` of a file returns is written to ``results/`` as a table and as JSON.
"""
