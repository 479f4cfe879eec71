"""Ports for servers that must be given a number."""
import random
import socket


def free_ports(n):
    """n of the loopback's TCP ports that nobody listens on. Below those that the kernel gives out by itself (ip_local_port_range):
    of them any connection may take one before the server has it."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first = int(f.read().split()[0])
    held = []
    try:
        for port in random.sample(range(min(first, 32768) // 2, first), 200):
            try:
                held.append(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            if len(held) == n:
                return [s.getsockname()[1] for s in held]
        raise AssertionError("no free port")
    finally:
        for s in held:
            s.close()
