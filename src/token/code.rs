use crate::format::Tokens;
pub fn tokenize(_: &str, _: bool, _: &mut Tokens) {}
