//! What does this robots.txt say about this URL?
