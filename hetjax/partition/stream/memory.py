"""Number of partitions, by the memory of the devices that train them (CATGNN, sections 3.2 and 3.4)."""

import math

from hetjax.system.errors import InputError

RESERVED = 2 / 3  # of a device's memory, for what training computes: the paper's default


def parts_for(data: int, memory: int, devices: int = 1, reserved: float = RESERVED) -> int:
    """Return the number of partitions.

    With devices of `M` bytes, of which training takes `T = reserved * M`: as many as devices if the data have less than
    `devices * (M - T)` bytes; else as many as it takes for the mean to have at most `M - T`, in turns. The paper says "a larger number".

    Args:
      data: bytes of edges and features; nodes that several partitions have are not in it, as nobody knows them yet.
      memory: bytes of a device.

    Raises:
      InputError: there is no memory.
    """
    room = memory * (1 - reserved)
    if room < 1:
        raise InputError(f"device_memory is {memory}, of which {reserved:.2f} are reserved: nothing is left")
    return devices if data < devices * room else math.ceil(data / room)
