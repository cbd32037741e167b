//! Tests of one replica and of several together, by the effects that they hand out.

mod chaos;
mod cluster;
mod members;
mod read_contexts;
mod single;
mod three;
