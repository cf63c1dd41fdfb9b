//! The `rel` of a single link.
//!
//! [`Permissions`](crate::Permissions) say whether any link of a page may be followed; a crawler asks this of
//! each.

/// Whether a link with this `rel` attribute may be followed: not when one of its words is `nofollow`, `ugc`
/// or `sponsored`. Words lie between ASCII whitespace and commas, and are compared without regard to ASCII
/// case.
///
/// ```
/// use abide_permissions::link_follow;
///
/// assert!(link_follow("noopener noreferrer"));
/// assert!(!link_follow("noopener NoFollow"));
/// assert!(!link_follow("ugc,nofollow"));
/// assert!(link_follow("nofollowing"), "words are compared whole");
/// ```
pub fn link_follow(rel: &str) -> bool {
    let restricts = |word: &str| RESTRICTING.iter().any(|known| word.eq_ignore_ascii_case(known));
    // Stricter: HTML separates by white space alone. Google documents commas as well, and sites write them.
    !rel.split(|letter: char| letter == ',' || letter.is_ascii_whitespace()).any(restricts)
}

const RESTRICTING: [&str; 3] = ["nofollow", "ugc", "sponsored"];
