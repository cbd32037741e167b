//! Requests to commands.
