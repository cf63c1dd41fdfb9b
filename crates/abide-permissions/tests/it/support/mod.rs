//! The oracle: which metas html5ever puts into the head element.

pub(crate) mod generate;

use std::borrow::Cow;
use std::cell::{Ref, RefCell};

use html5ever::interface::{ElemName, ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, ParseOpts, QualName, ns, parse_document};

/// The metas with a name in the head element, in document order, as a browser with or without scripting builds it.
pub(crate) fn metas(document: &str, scripting: bool) -> Vec<(String, String)> {
    let tree_builder = TreeBuilderOpts { scripting_enabled: scripting, ..TreeBuilderOpts::default() };
    let options = ParseOpts { tree_builder, ..ParseOpts::default() };
    parse_document(Tree::default(), options).one(document)
}

#[derive(Default)]
struct Tree {
    nodes: RefCell<Vec<Node>>,
}

#[derive(Default)]
struct Node {
    name: Option<QualName>,
    attributes: Vec<Attribute>,
    parent: Option<usize>,
    children: Vec<usize>,
    template: Option<usize>,
    integration_point: bool,
}

impl Tree {
    fn push(&self, node: Node) -> usize {
        // The document is node 0, made on demand.
        let mut nodes = self.nodes.borrow_mut();
        if nodes.is_empty() {
            nodes.push(Node::default());
        }
        nodes.push(node);
        nodes.len() - 1
    }

    fn detach(&self, child: usize) {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(parent) = nodes[child].parent.take() {
            nodes[parent].children.retain(|node| *node != child);
        }
    }

    fn is(&self, node: usize, name: &str) -> bool {
        self.nodes.borrow()[node].name.as_ref().is_some_and(|own| own.ns == ns!(html) && &*own.local == name)
    }

    fn child(&self, parent: usize, name: &str) -> Option<usize> {
        let children = self.nodes.borrow().get(parent)?.children.clone();
        children.into_iter().find(|child| self.is(*child, name))
    }

    fn head_metas(&self) -> Vec<(String, String)> {
        let Some(head) = self.child(0, "html").and_then(|html| self.child(html, "head")) else {
            return Vec::new();
        };
        let mut open = vec![head];
        let mut found = Vec::new();
        while let Some(node) = open.pop() {
            let nodes = self.nodes.borrow();
            if self.is(node, "meta") {
                let attribute = |name: &str| {
                    let attribute =
                        nodes[node].attributes.iter().find(|attribute| &*attribute.name.local == name);
                    attribute.map(|attribute| attribute.value.to_string()).unwrap_or_default()
                };
                let name = attribute("name");
                if !name.is_empty() {
                    found.push((name, attribute("content")));
                }
            }
            open.extend(nodes[node].children.iter().rev());
        }
        found
    }
}

#[derive(Debug)]
pub(crate) struct Name<'a>(Ref<'a, QualName>);

impl ElemName for Name<'_> {
    fn ns(&self) -> &html5ever::Namespace {
        &self.0.ns
    }

    fn local_name(&self) -> &html5ever::LocalName {
        &self.0.local
    }
}

impl TreeSink for Tree {
    type Handle = usize;
    type Output = Vec<(String, String)>;
    type ElemName<'a> = Name<'a>;

    fn finish(self) -> Self::Output {
        self.head_metas()
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> usize {
        if self.nodes.borrow().is_empty() {
            self.nodes.borrow_mut().push(Node::default());
        }
        0
    }

    fn elem_name<'a>(&'a self, target: &'a usize) -> Name<'a> {
        Name(Ref::map(self.nodes.borrow(), |nodes| nodes[*target].name.as_ref().unwrap()))
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> usize {
        let is_template = name.ns == ns!(html) && &*name.local == "template";
        let template = is_template.then(|| self.push(Node::default()));
        let integration_point = flags.mathml_annotation_xml_integration_point;
        self.push(Node { name: Some(name), attributes, template, integration_point, ..Node::default() })
    }

    fn create_comment(&self, _: StrTendril) -> usize {
        self.push(Node::default())
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> usize {
        self.push(Node::default())
    }

    fn append(&self, parent: &usize, child: NodeOrText<usize>) {
        if let NodeOrText::AppendNode(child) = child {
            self.detach(child);
            self.nodes.borrow_mut()[child].parent = Some(*parent);
            self.nodes.borrow_mut()[*parent].children.push(child);
        }
    }

    fn append_based_on_parent_node(&self, element: &usize, previous: &usize, child: NodeOrText<usize>) {
        if self.nodes.borrow()[*element].parent.is_some() {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn mark_script_already_started(&self, _: &usize) {}

    fn get_template_contents(&self, target: &usize) -> usize {
        self.nodes.borrow()[*target].template.unwrap()
    }

    fn same_node(&self, x: &usize, y: &usize) -> bool {
        x == y
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &usize, child: NodeOrText<usize>) {
        if let NodeOrText::AppendNode(child) = child {
            self.detach(child);
            let mut nodes = self.nodes.borrow_mut();
            let parent = nodes[*sibling].parent.unwrap();
            let at = nodes[parent].children.iter().position(|node| node == sibling).unwrap();
            nodes[parent].children.insert(at, child);
            nodes[child].parent = Some(parent);
        }
    }

    fn add_attrs_if_missing(&self, target: &usize, attributes: Vec<Attribute>) {
        let own = &mut self.nodes.borrow_mut()[*target].attributes;
        for attribute in attributes {
            if own.iter().all(|known| known.name != attribute.name) {
                own.push(attribute);
            }
        }
    }

    fn remove_from_parent(&self, target: &usize) {
        self.detach(*target);
    }

    fn reparent_children(&self, node: &usize, new_parent: &usize) {
        let children = std::mem::take(&mut self.nodes.borrow_mut()[*node].children);
        for child in children {
            self.nodes.borrow_mut()[child].parent = Some(*new_parent);
            self.nodes.borrow_mut()[*new_parent].children.push(child);
        }
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &usize) -> bool {
        self.nodes.borrow()[*handle].integration_point
    }
}
