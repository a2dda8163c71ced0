use crate::format::Span;
#[derive(Debug, Clone, Default)]
pub struct Stripped {
    pub text: String,
}
impl Stripped {
    pub fn strip(&mut self, _: &str) {}
    pub fn original(&self, s: Span) -> Span {
        s
    }
}
