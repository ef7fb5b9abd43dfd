"""Products of many sizes do not fill the memory: every batch of a training run has another number of tokens."""

import os
import subprocess
import sys

MEASURE = """
import plait
import torch
from plait.encoder.cpu.linear import CpuLinear

def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) / 1024

torch.set_num_threads(1)
layer = CpuLinear(384, 1536)
found = []
for tokens in range(600, 1, -2):  # falling, so that buffers of earlier sizes can be reused
    layer(torch.ones(tokens, 384, requires_grad=True)).sum().backward()
    found.append(resident())
print(found[-1] - found[60])
"""


def test_memory_does_not_grow_with_the_number_of_sizes():
    environment = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_CAPACITY")}
    command = [sys.executable, "-c", MEASURE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 50  # megabytes for 240 sizes; unbounded, each of them takes one
