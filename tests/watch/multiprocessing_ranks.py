"""Starts two ranks of a script by torch.multiprocessing: multiprocessing_ranks.py METHOD SCRIPT FOLDER
They meet in the folder. METHOD: fork or spawn."""

import os
import runpy
import sys

import torch.multiprocessing


def run(rank, script):
    os.environ["RANK"] = str(rank)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    method, script, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    os.environ.update(STORE="file://%s/store" % folder, STARTED=folder + "/started", OMP_NUM_THREADS="1")
    torch.multiprocessing.start_processes(run, (script,), nprocs=2, start_method=method)
