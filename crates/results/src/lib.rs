//! The results of a benchmark: one JSON schema for all of `quorate bench`, and the reports made of
//! it.
//!
//! The path of a figure: a workload fills a [`schema::Results`]; [`ratio`] compares two systems
//! that were measured in turn; [`rows`] picks the rows of a table; [`html`], [`markdown`] and
//! [`text`] render it. For two runs, [`matched`] finds the figures that both have; [`compare`]
//! renders them, [`gate`] judges them. Pure: figures in, text out.

pub mod compare;
#[cfg(test)]
mod example;
pub mod gate;
pub mod html;
pub mod markdown;
pub mod matched;
pub mod number;
pub mod ratio;
pub mod rows;
pub mod schema;
pub mod svg;
pub mod text;

pub use schema::Results;
