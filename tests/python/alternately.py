"""alternately.py URI1 URI2: writes a number to one volume, then to the other, and so on, each when the write before it is
answered. So at every instant the second holds the number of the first, or the one before. Ends when its input does, and
says the last number."""

import select, subprocess, sys

def opened(uri):
    return subprocess.Popen(["qemu-io", "-f", "raw", uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

def write(volume, number):
    volume.stdin.write(f"write -P {number % 251 + 1} 0 4k\n")
    volume.stdin.flush()
    while "ops;" not in (line := volume.stdout.readline()):
        if not line or "failed" in line:
            sys.exit(f"a write of {number} failed: {line}")

volumes = [opened(uri) for uri in sys.argv[1:3]]
number = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    number += 1
    for volume in volumes:
        write(volume, number)
for volume in volumes:
    volume.communicate("quit\n")
print(number)
