//! The tools from outside: every test runs the binaries in a directory of its own.

mod alike;
mod apart;
mod areas;
mod blot;
mod counted;
mod damage;
mod documents;
mod extract;
mod faults;
mod incremental;
mod gdic;
mod html;
mod index;
mod manners;
mod manual;
mod passages;
mod pipeline;
mod query;
mod schemes;
mod shard;
mod shared;
mod spex;
mod texts;
mod tokenize;
mod unique;
mod work;
