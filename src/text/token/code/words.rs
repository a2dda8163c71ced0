//! The operators and keywords of the popular languages.

/// Operators of three and four characters, longest first. The first two of each are in [`PAIRS`].
const LONG_OPERATORS: [&[u8]; 17] = [
    b">>>=", b"&&=", b"&^=", b"**=", b"->*", b"...", b"..<", b"..=", b"<<<", b"<<=", b"<=>",
    b"===", b"!==", b">>=", b">>>", b"??=", b"||=",
];

/// Operators of two characters.
const PAIRS: [&[u8; 2]; 36] = [
    b"!=", b"!~", b"##", b"%=", b"&&", b"&=", b"&^", b"**", b"*=", b"++", b"+=", b"--", b"-=",
    b"->", b"..", b"/=", b"::", b":=", b";;", b"<-", b"<<", b"<=", b"<>", b"==", b"=>", b"=~",
    b">=", b">>", b"?.", b"?:", b"??", b"^=", b"|=", b"|>", b"||", b"~=",
];

/// For each first byte of a pair the set of its second bytes: most operators are single, which this shows at once.
static SECONDS: [u128; 128] = {
    let mut seconds = [0; 128];
    let mut i = 0;
    while i < PAIRS.len() {
        seconds[PAIRS[i][0] as usize] |= 1 << PAIRS[i][1];
        i += 1;
    }
    seconds
};

/// The names `normalise` keeps, sorted. They are reserved in at least one popular language and seldom a variable in
/// another: a name kept by mistake hides a renaming, a keyword missed costs next to nothing. So `match`, `type`,
/// `end`, `mod` and `val` are not here. Words of SQL count in capitals only.
#[rustfmt::skip]
const KEYWORDS: [&str; 198] = [
    "ALTER", "AND", "AS", "BETWEEN", "BY", "CASE", "CREATE", "DELETE", "DESC", "DISTINCT", "DROP", "ELSE", "END", "EXISTS",
    "FROM", "False", "GROUP", "HAVING", "IN", "INNER", "INSERT", "INTO", "IS", "JOIN", "LIKE", "LIMIT", "NOT", "NULL", "None",
    "ON", "OR", "ORDER", "OUTER", "PRIMARY", "REFERENCES", "SELECT", "SET", "Self", "TABLE", "THEN", "True", "UNION",
    "UNIQUE", "UPDATE", "VALUES", "WHEN", "WHERE", "WITH", "abstract", "alignas", "alignof", "and", "as", "asm", "assert",
    "async", "auto", "await", "bool", "boolean", "break", "case", "catch", "chan", "char", "class", "const", "const_cast",
    "constexpr", "continue", "crate", "debugger", "decltype", "def", "default", "defer", "define", "del", "delete", "do",
    "double", "dyn", "dynamic_cast", "echo", "elif", "else", "elseif", "elsif", "endif", "enum", "esac", "except", "explicit",
    "export", "extends", "extern", "fallthrough", "false", "fi", "final", "finally", "float", "fn", "for", "foreach",
    "friend", "from", "func", "function", "global", "go", "goto", "if", "ifdef", "ifndef", "impl", "implements", "import",
    "in", "include", "inline", "instanceof", "int", "interface", "internal", "is", "isset", "lambda", "let", "local", "long",
    "mut", "mutable", "namespace", "new", "nil", "noexcept", "nonlocal", "not", "null", "nullptr", "operator", "or",
    "override", "package", "pass", "pragma", "private", "protected", "pub", "public", "raise", "readonly", "register",
    "reinterpret_cast", "require", "rescue", "return", "self", "short", "signed", "sizeof", "static", "static_assert",
    "static_cast", "struct", "super", "switch", "synchronized", "template", "then", "this", "throw", "throws", "trait",
    "true", "try", "typedef", "typename", "typeof", "undefined", "union", "unless", "unsafe", "unset", "unsigned", "until",
    "use", "using", "var", "virtual", "void", "volatile", "when", "where", "while", "with", "yield",
];

/// Whether a name is a keyword of some language.
pub fn is_keyword(name: &[u8]) -> bool {
    name.len() <= 16 && KEYS.binary_search(&key(name)).is_ok()
}

/// A name of up to 16 bytes as a number, in the same order: `"do"` is `0x646f` and 14 bytes of nought.
const fn key(name: &[u8]) -> u128 {
    let mut key = 0;
    let mut i = 0;
    while i < 16 {
        key = key << 8 | if i < name.len() { name[i] as u128 } else { 0 };
        i += 1;
    }
    key
}

/// [`KEYWORDS`] as numbers: twice as fast to search as strings.
static KEYS: [u128; KEYWORDS.len()] = {
    let mut keys = [0; KEYWORDS.len()];
    let mut i = 0;
    while i < keys.len() {
        keys[i] = key(KEYWORDS[i].as_bytes());
        i += 1;
    }
    keys
};

/// How many bytes the longest operator has that `rest` begins with; a character that is none stands for itself.
pub fn operator_len(rest: &[u8]) -> usize {
    let &[first, second, ..] = rest else { return 1 };
    if second >= 128 || SECONDS[first as usize & 127] >> second & 1 == 0 {
        return 1;
    }
    LONG_OPERATORS
        .iter()
        .find(|operator| rest.starts_with(operator))
        .map_or(2, |operator| operator.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_order() {
        assert!(KEYWORDS.is_sorted() && KEYS.is_sorted());
        assert!(KEYWORDS.iter().all(|word| word.len() <= 16));
        assert!(LONG_OPERATORS.is_sorted_by_key(|operator| std::cmp::Reverse(operator.len())));
        assert!(
            LONG_OPERATORS
                .iter()
                .all(|long| PAIRS.iter().any(|pair| long.starts_with(*pair)))
        );
    }
}
