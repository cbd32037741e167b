//! Behaviour of one replica and of several, by what they hand out.

mod chaos;
mod cluster;
mod members;
mod read_contexts;
mod single;
mod three;
