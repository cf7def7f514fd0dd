"""Runs COUNT tasks of /bin/true with HyperQueue on two CPUs, and prints the seconds from the submission to the end.

    python3 hyperqueue.py COUNT

It needs the package hyperqueue of PyPI.
"""

import sys
import time

# This file has the name of the package.
sys.path.pop(0)
from hyperqueue import Job
from hyperqueue.cluster import LocalCluster, WorkerConfig

with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=2))
    client = cluster.client()
    job = Job()
    for _ in range(int(sys.argv[1])):
        job.program(["/bin/true"], stdout=None, stderr=None)
    begin = time.time()
    client.wait_for_jobs([client.submit(job)])
    print("seconds", time.time() - begin)
