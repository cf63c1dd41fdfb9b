//! What each crate promises, as text: a line for each exported item, field, variant and method, with its
//! signature, in `docs/dev/public-api/`. So a change of it shows in a review.
//!
//! ```sh
//! PUBLIC_API=write cargo test -p abide-tests --test api
//! ```
//!
//! Read from the sources: rustdoc's JSON, which the published tools read, comes from a nightly compiler
//! alone, for which CI would compile all dependencies once more. What says `pub` is exported, since the lint
//! `unreachable_pub` is denied. Attributes are left out, and so are derived traits. Of what macros export,
//! the items are seen that they are handed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::Path;

use syn::visit_mut::{VisitMut, visit_item_struct_mut};
use syn::{
    Attribute, Block, Field, Fields, File, Ident, ImplItem, Item, ItemImpl, ItemMod, ItemStruct, PatIdent,
    Receiver, Type, UseTree, Visibility, parse_quote,
};

#[test]
fn the_public_api_is_the_one_that_was_written_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut changed = String::new();
    for entry in std::fs::read_dir(root.join("crates")).unwrap().map(Result::unwrap) {
        let sources = entry.path().join("src");
        if !sources.join("lib.rs").exists() {
            continue;
        }
        let mut api = Api::default();
        api.read(&sources);
        let found = api.lines();
        let page = root.join("docs/dev/public-api").join(entry.file_name()).with_extension("txt");
        if std::env::var_os("PUBLIC_API").is_some_and(|value| value == "write") {
            let text: String = found.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(&page, text).unwrap();
        }
        let written = std::fs::read_to_string(&page).unwrap_or_default();
        let written: BTreeSet<String> = written.lines().map(str::to_owned).collect();
        changed.extend(written.difference(&found).map(|line| format!("- {line}\n")));
        changed.extend(found.difference(&written).map(|line| format!("+ {line}\n")));
    }
    assert!(
        changed.is_empty(),
        "the public API has changed. If it is meant: PUBLIC_API=write cargo test -p abide-tests --test api\n{changed}"
    );
}

#[test]
fn a_line_has_a_signature_and_nothing_private() {
    let mut api = Api::default();
    api.take(parse_quote! {
        pub struct A { #[doc = "x"] pub a: u8, b: u8 }
        pub struct B(u8, pub u8);
        impl A { #[must_use] pub fn f(&self, long: impl Fn(&str) -> Option<String>) -> u8 { 1 } fn g() {} }
        impl A { pub fn h(mut self, mut by: u8) -> Self { self } }
        impl From<u8> for A { fn from(_: u8) -> Self { Self } }
        pub enum E { V { x: u8 } }
        pub use other::{One, Two as Three};
        #[cfg(test)] mod tests { pub struct T; }
    });
    let expected = "impl A { pub fn f(&self, long: impl Fn(&str) -> Option<String>) -> u8 }\n\
                    impl A { pub fn h(self, by: u8) -> Self }\nimpl From<u8> for A\n\
                    pub enum E\npub enum E { V { x: u8 } }\npub struct A { pub a: u8 }\n\
                    pub struct B(_, pub u8)\npub use other::One\npub use other::Two as Three";
    assert_eq!(api.lines().into_iter().collect::<Vec<_>>().join("\n"), expected);
}

/// Everything in the files of one crate that says `pub`.
#[derive(Default)]
struct Api {
    lines: BTreeSet<String>,
    /// Of the types and traits among them.
    names: BTreeSet<String>,
    impls: Vec<ItemImpl>,
}

impl Api {
    fn read(&mut self, path: &Path) {
        if path.is_dir() {
            std::fs::read_dir(path).unwrap().for_each(|entry| self.read(&entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            self.take(syn::parse_file(&std::fs::read_to_string(path).unwrap()).unwrap());
        }
    }

    fn take(&mut self, mut file: File) {
        file.items.retain(|item| !matches!(item, Item::Mod(module) if module.attrs.iter().any(is_test)));
        Signatures.visit_file_mut(&mut file);
        for item in file.items {
            match item {
                Item::Mod(mut module) => {
                    let items = module.content.take().map(|(_, items)| items).unwrap_or_default();
                    self.take(File { shebang: None, attrs: Vec::new(), items });
                    module.semi = Some(Default::default());
                    self.add([Item::Mod(module)]);
                }
                // A macro that is handed whole items is taken to pass them on.
                Item::Macro(call) => call.mac.parse_body().into_iter().for_each(|handed| self.take(handed)),
                Item::Use(import) if matches!(import.vis, Visibility::Public(_)) => {
                    self.exports("pub use ", &import.tree);
                }
                Item::Impl(block) => self.impls.push(block),
                Item::Enum(mut whole) => {
                    let variants = std::mem::take(&mut whole.variants);
                    let each = each_alone(&whole, variants, |whole, variant| whole.variants.push(variant));
                    self.add(each.map(Item::Enum));
                }
                Item::Trait(mut whole) => {
                    let items = std::mem::take(&mut whole.items);
                    let each = each_alone(&whole, items, |whole, item| whole.items.push(item));
                    self.add(each.map(Item::Trait));
                }
                // A static of `task_local!`, which has no value.
                Item::Verbatim(tokens) => assert!(!tokens.to_string().contains("pub "), "{tokens}"),
                item => self.add([item]),
            }
        }
    }

    fn add(&mut self, items: impl IntoIterator<Item = Item>) {
        for line in items.into_iter().map(line).filter(|line| line.starts_with("pub ")) {
            // `pub struct Name`
            self.names
                .extend(line.split(|c: char| !c.is_alphanumeric() && c != '_').nth(2).map(str::to_owned));
            self.lines.insert(line);
        }
    }

    fn exports(&mut self, path: &str, tree: &UseTree) {
        match tree {
            UseTree::Path(tree) => self.exports(&format!("{path}{}::", tree.ident), &tree.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.exports(path, tree)),
            UseTree::Name(name) => drop(self.lines.insert(format!("{path}{}", name.ident))),
            UseTree::Rename(to) => drop(self.lines.insert(format!("{path}{} as {}", to.ident, to.rename))),
            UseTree::Glob(_) => drop(self.lines.insert(format!("{path}*"))),
        }
    }

    /// With what is implemented for the types and traits.
    fn lines(mut self) -> BTreeSet<String> {
        for mut block in std::mem::take(&mut self.impls) {
            let is_ours = |name: &Ident| self.names.contains(&name.to_string());
            let of_trait = block.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
            if !(of_trait.is_some_and(|last| is_ours(&last.ident))
                || type_name(&block.self_ty).is_some_and(is_ours))
            {
                continue;
            }
            let items = std::mem::take(&mut block.items);
            if block.trait_.is_some() {
                block.items = items.into_iter().filter(|item| matches!(item, ImplItem::Type(_))).collect();
                self.lines.insert(line(Item::Impl(block)));
            } else {
                let each = each_alone(&block, items, |block, item| block.items.push(item)).skip(1);
                self.lines.extend(each.map(Item::Impl).map(line).filter(|line| line.contains("{ pub ")));
            }
        }
        self.lines
    }
}

/// The container without members, and then with each of them alone.
fn each_alone<C: Clone, M>(
    container: &C,
    members: impl IntoIterator<Item = M>,
    put: impl Fn(&mut C, M),
) -> impl Iterator<Item = C> {
    let alone = members.into_iter().map(move |member| {
        let mut container = container.clone();
        put(&mut container, member);
        container
    });
    std::iter::once(container.clone()).chain(alone)
}

fn line(item: Item) -> String {
    let text = prettyplease::unparse(&File { shebang: None, attrs: Vec::new(), items: vec![item] });
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.replace("( ", "(").replace(", )", ")").replace(", }", " }").replace(" {}", "");
    text.trim_end_matches(';').to_owned()
}

fn type_name(of: &Type) -> Option<&Ident> {
    match of {
        Type::Reference(reference) => type_name(&reference.elem),
        Type::Path(path) => path.path.segments.last().map(|last| &last.ident),
        _ => None,
    }
}

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<Ident>().is_ok_and(|name| name == "test")
}

/// Takes off attributes with the documentation, bodies, and private fields.
struct Signatures;

impl VisitMut for Signatures {
    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        attributes.clear();
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        block.stmts.clear();
    }

    /// By value, it is the function's own business whether it changes what it got.
    fn visit_receiver_mut(&mut self, receiver: &mut Receiver) {
        receiver.mutability = receiver.mutability.filter(|_| receiver.reference.is_some());
    }

    fn visit_pat_ident_mut(&mut self, name: &mut PatIdent) {
        name.mutability = None;
    }

    fn visit_item_struct_mut(&mut self, item: &mut ItemStruct) {
        let is_public = |field: &Field| matches!(field.vis, Visibility::Public(_));
        match &mut item.fields {
            Fields::Named(named) => {
                named.named = std::mem::take(&mut named.named).into_iter().filter(is_public).collect();
            }
            // Its place is kept.
            Fields::Unnamed(unnamed) => {
                let private = unnamed.unnamed.iter_mut().filter(|field| !is_public(field));
                private.for_each(|field| field.ty = parse_quote!(_));
            }
            Fields::Unit => {}
        }
        visit_item_struct_mut(self, item);
    }

    fn visit_item_mod_mut(&mut self, module: &mut ItemMod) {
        // What is in it is taken in later, without the tests.
        module.attrs.clear();
    }
}
