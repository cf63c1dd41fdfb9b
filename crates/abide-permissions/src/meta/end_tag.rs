//! End tags, read from bytes that are known to be nothing else (HTML standard, §13.2.5.7 and the attribute states).

/// Calls `found` with the name of each end tag in `bytes`, in lower case. Other bytes are passed over.
pub(super) fn for_each_end_tag(mut bytes: &[u8], mut found: impl FnMut(&[u8])) {
    while let Some(rest) = after_opening(bytes) {
        bytes = rest;
        if !rest.first().is_some_and(u8::is_ascii_alphabetic) {
            continue;
        }
        let length = rest.iter().position(|byte| ends_name(*byte)).unwrap_or(rest.len());
        let Some((name, attributes)) = rest.split_at_checked(length) else { return };
        match short_lower_case(name) {
            Some((buffer, length)) => found(buffer.get(..length).unwrap_or_default()),
            None => found(b""),
        }
        bytes = after_tag(attributes);
    }
}

/// What follows the next `</`.
fn after_opening(bytes: &[u8]) -> Option<&[u8]> {
    let at = bytes.windows(2).position(|pair| pair == b"</")?;
    bytes.get(at.saturating_add(2)..)
}

const fn ends_name(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>')
}

/// Names of interest have at most eight letters; a longer one is none of them.
fn short_lower_case(name: &[u8]) -> Option<([u8; 8], usize)> {
    let mut buffer = [0; 8];
    buffer.get_mut(..name.len())?.copy_from_slice(name);
    buffer.make_ascii_lowercase();
    Some((buffer, name.len()))
}

/// Where in the attributes of a tag we are.
enum Within {
    BeforeName,
    Name,
    AfterName,
    BeforeValue,
    Quoted(u8),
    Unquoted,
}

/// What follows the `>` of a tag whose attributes begin here. A quote matters only where a value begins.
fn after_tag(attributes: &[u8]) -> &[u8] {
    let mut within = Within::BeforeName;
    for (at, &byte) in attributes.iter().enumerate() {
        if byte == b'>' && !matches!(within, Within::Quoted(_)) {
            return attributes.get(at.saturating_add(1)..).unwrap_or_default();
        }
        within = match within {
            Within::Quoted(quote) if byte == quote => Within::BeforeName,
            Within::Quoted(quote) => Within::Quoted(quote),
            Within::Unquoted if byte.is_ascii_whitespace() => Within::BeforeName,
            Within::Unquoted => Within::Unquoted,
            Within::BeforeValue => match byte {
                b'"' | b'\'' => Within::Quoted(byte),
                _ if byte.is_ascii_whitespace() => Within::BeforeValue,
                _ => Within::Unquoted,
            },
            Within::Name | Within::AfterName if byte == b'=' => Within::BeforeValue,
            _ if byte == b'/' => Within::BeforeName,
            Within::Name | Within::AfterName if byte.is_ascii_whitespace() => Within::AfterName,
            Within::BeforeName if byte.is_ascii_whitespace() => Within::BeforeName,
            Within::BeforeName | Within::Name | Within::AfterName => Within::Name,
        };
    }
    b""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &str) -> Vec<String> {
        let mut names = Vec::new();
        for_each_end_tag(bytes.as_bytes(), |name| names.push(String::from_utf8_lossy(name).into_owned()));
        names
    }

    #[test]
    fn quotes_count_only_where_a_value_begins() {
        for (bytes, expected) in [
            ("", vec![]),
            ("</head>", vec!["head"]),
            ("</HEAD\n></p></></Body/>", vec!["head", "p", "body"]),
            ("</head a='>'></p>", vec!["head", "p"]),
            ("</head a = \"</body>\"></p>", vec!["head", "p"]),
            ("</head a'></p>", vec!["head", "p"]),
            ("</head 'a></p>", vec!["head", "p"]),
            ("</head a=b'></p>", vec!["head", "p"]),
            ("</head a=/></p>", vec!["head", "p"]),
            ("</head ='></p>", vec!["head", "p"]),
            ("</head a='x'b='>'></p>", vec!["head", "p"]),
            ("</head a=></p>", vec!["head", "p"]),
            ("</headings></br>", vec!["headings", "br"]),
            ("</a-long-name></br>", vec!["", "br"]),
            ("<", vec![]),
            ("</", vec![]),
        ] {
            assert_eq!(names(bytes), expected, "{bytes}");
        }
    }
}
