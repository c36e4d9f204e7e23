"""Hostile campaigns: many damaged files, odd command lines and requests, each tried and counted.

    PYTHONPATH=tests python -m campaigns files --cases 20000 --seed 0 --out results/campaigns

`test_campaigns.py` runs a short form of each with the other tests.
"""
