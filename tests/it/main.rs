//! The tools from outside: every test runs the binaries in a directory of its own.

mod alike;
mod apart;
mod blot;
mod counted;
mod damage;
mod documents;
mod extract;
mod faults;
mod front;
mod incremental;
mod history;
mod html;
mod index;
mod manners;
mod manual;
mod passages;
mod pipeline;
mod query;
mod schemes;
mod service;
mod shared;
mod spex;
mod texts;
mod tokenize;
mod unique;
mod work;
