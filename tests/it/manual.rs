//! What the manual shows is what the tools do.
