//! Every bound of the agent, and what happens at it.
