//! The oracle: which metas html5ever puts into the head element.

pub(crate) mod generate;

use html5ever::tendril::TendrilSink;
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, ns, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// The metas with a name in the head element, in document order, as a browser with or without scripting
/// builds it.
pub(crate) fn metas(document: &str, scripting: bool) -> Vec<(String, String)> {
    let dom = parsed(document, scripting);
    metas_within(child(&dom.document, "html").and_then(|html| child(&html, "head")))
}

/// The metas with a name wherever they are in the document.
pub(crate) fn metas_anywhere(document: &str, scripting: bool) -> Vec<(String, String)> {
    metas_within(Some(parsed(document, scripting).document.clone()))
}

fn parsed(document: &str, scripting: bool) -> RcDom {
    let tree_builder = TreeBuilderOpts { scripting_enabled: scripting, ..TreeBuilderOpts::default() };
    let options = ParseOpts { tree_builder, ..ParseOpts::default() };
    parse_document(RcDom::default(), options).one(document)
}

fn metas_within(node: Option<Handle>) -> Vec<(String, String)> {
    let mut open: Vec<Handle> = node.into_iter().collect();
    let mut found = Vec::new();
    while let Some(node) = open.pop() {
        let name = attribute(&node, "name");
        if is(&node, "meta") && !name.is_empty() {
            found.push((name, attribute(&node, "content")));
        }
        // The content of a template is not among its children.
        open.extend(node.children.borrow().iter().rev().cloned());
    }
    found
}

fn child(parent: &Handle, name: &str) -> Option<Handle> {
    parent.children.borrow().iter().find(|child| is(child, name)).cloned()
}

fn is(node: &Handle, local: &str) -> bool {
    matches!(&node.data, NodeData::Element { name, .. } if name.ns == ns!(html) && &*name.local == local)
}

fn attribute(node: &Handle, name: &str) -> String {
    let NodeData::Element { attrs, .. } = &node.data else { return String::new() };
    let attributes = attrs.borrow();
    let own = attributes.iter().find(|attribute| &*attribute.name.local == name);
    own.map(|attribute| attribute.value.to_string()).unwrap_or_default()
}
