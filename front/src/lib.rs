//! Placeholder replaced in the next step.
