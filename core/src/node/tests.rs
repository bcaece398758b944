//! Nodes wired together in memory.
