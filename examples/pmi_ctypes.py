#!/usr/bin/env python3
"""Neighbours by PMI-1 from Python, without any package: libpmi.so.0 is found as the loader finds it."""

import ctypes
import os
import socket

pmi = ctypes.CDLL("libpmi.so.0")


def must(name, *arguments):
    """Calls a function of the library that returns 0 when all is well."""
    code = getattr(pmi, name)(*arguments)
    if code != 0:
        raise SystemExit(f"{name} failed with {code}")


def number(name):
    """The number that a function of the library gives."""
    value = ctypes.c_int()
    must(name, ctypes.byref(value))
    return value.value


spawned = number("PMI_Init")
rank, size, here = (number(f"PMI_Get_{what}") for what in ("rank", "size", "clique_size"))
space = ctypes.create_string_buffer(number("PMI_KVS_Get_name_length_max"))
must("PMI_KVS_Get_my_name", space, len(space))

address = f"{socket.gethostname()}:{os.getpid()}"
must("PMI_KVS_Put", space, f"address-{rank}".encode(), address.encode())
must("PMI_KVS_Commit", space)
must("PMI_Barrier")

right = (rank + 1) % size
neighbour = ctypes.create_string_buffer(number("PMI_KVS_Get_value_length_max"))
must("PMI_KVS_Get", space, f"address-{right}".encode(), neighbour, len(neighbour))
print(f"rank {rank} of {size}, {here} on this node; rank {right} is at {neighbour.value.decode()}")
must("PMI_Finalize")
