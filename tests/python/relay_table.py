"""Prints what tests/relay.sh has measured, and whether it is as it should be.

Argument: a file with a line for each turn: its number, and microseconds over a link of one's own and through a relay.
"""

import statistics, sys
MOST = 2.5
ratios = []
print("| turn | direct | through one relay | ratio |")
print("|---|---|---|---|")
for line in open(sys.argv[1]):
    turn, direct, relayed = line.split()
    ratios.append(float(relayed) / float(direct))
    print(f"| {turn} | {float(direct):.0f} us | {float(relayed):.0f} us | {ratios[-1]:.2f} |")
middle = statistics.median(ratios)
print(f"\nthe middle of the ratios is {middle:.2f}; {MOST} is the most")
sys.exit(middle > MOST)
