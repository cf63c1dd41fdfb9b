//! What each crate promises, as text: every exported item with its signature. A change of it shows in a review of
//! `docs/dev/public-api/`.
//!
//! ```sh
//! PUBLIC_API=write cargo test -p abide-tests --test api
//! ```
//!
//! Read from the sources and not from rustdoc's JSON, which only a nightly compiler writes. Of what macros export, the
//! items are seen that they are handed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{
    Attribute, Fields, File, ImplItem, Item, ItemImpl, ItemMod, TraitItem, Type, UseTree, Visibility,
    parse_quote,
};

#[test]
fn the_public_api_is_the_one_that_was_written_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut differing = Vec::new();
    for name in libraries(&root.join("crates")) {
        let api = Crate::read(&root.join("crates").join(&name).join("src")).listing();
        let page = root.join("docs/dev/public-api").join(format!("{name}.rs"));
        if std::env::var_os("PUBLIC_API").is_some_and(|value| value == "write") {
            std::fs::write(&page, &api).unwrap();
        }
        let written = std::fs::read_to_string(&page).unwrap_or_default();
        if written != api {
            differing.push(format!("{name}:\n{}", difference(&written, &api)));
        }
    }
    assert!(
        differing.is_empty(),
        "the public API has changed. If it is meant: PUBLIC_API=write cargo test -p abide-tests --test api\n{}",
        differing.join("\n")
    );
}

#[test]
fn a_changed_signature_shows() {
    let listing = |text: &str| {
        let mut read = Crate::default();
        read.take(syn::parse_file(text).unwrap(), Path::new("/nowhere"), true);
        read.listing()
    };
    let one =
        listing("pub struct A { pub a: u8, b: u8 } impl A { pub fn f(&self) -> u8 { 1 } fn g(&self) {} }");
    assert!(one.contains("pub fn f(&self) -> u8"), "{one}");
    assert!(!one.contains('b') || !one.contains("b: u8"), "private fields are not shown: {one}");
    assert!(!one.contains("fn g"), "{one}");
    let other = listing("pub struct A { pub a: u8, b: u8 } impl A { pub fn f(&self) -> u16 { 1 } }");
    assert_ne!(one, other);
    let with_variant = listing("pub enum E { A, B { x: u8 } }");
    assert!(with_variant.contains("x: u8"), "{with_variant}");
}

/// The crates that are libraries.
fn libraries(crates: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap());
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("src/lib.rs").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The lines that only one of the two has.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    let gone = before.lines().filter(|line| !new.contains(line)).map(|line| format!("- {line}\n"));
    let come = after.lines().filter(|line| !old.contains(line)).map(|line| format!("+ {line}\n"));
    gone.chain(come).collect()
}

/// Everything in the files of one crate.
#[derive(Default)]
struct Crate {
    /// Items that say `pub`, wherever they stand, by name.
    items: BTreeMap<String, Vec<Item>>,
    impls: Vec<ItemImpl>,
    /// What is reachable from outside.
    exported: BTreeSet<String>,
    /// Exports of other crates.
    foreign: Vec<Item>,
    modules: Vec<Item>,
}

impl Crate {
    fn read(sources: &Path) -> Self {
        let mut read = Self::default();
        read.file(&sources.join("lib.rs"), sources, true);
        read
    }

    fn file(&mut self, path: &Path, directory: &Path, is_public: bool) {
        let file = syn::parse_file(&std::fs::read_to_string(path).unwrap()).unwrap();
        self.take(file, directory, is_public);
    }

    /// Takes a module in. Its own `pub` items are exported if it is public; those of private modules if a
    /// `pub use` names them.
    fn take(&mut self, file: File, directory: &Path, is_public: bool) {
        let modules: BTreeSet<String> = file
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Mod(module) => Some(module.ident.to_string()),
                _ => None,
            })
            .collect();
        for item in file.items {
            match item {
                Item::Mod(module) => self.module(module, directory, is_public),
                Item::Use(import) if is_public && is_pub(&import.vis) => {
                    let mut names = BTreeSet::new();
                    if leaves(&import.tree, &modules, true, &mut names) {
                        self.exported.extend(names);
                    } else {
                        self.foreign.push(Item::Use(import));
                    }
                }
                Item::Impl(block) => self.impls.push(block),
                // A macro that is handed whole items is taken to pass them on.
                Item::Macro(call) => {
                    if let Ok(handed) = call.mac.parse_body() {
                        self.take(handed, directory, is_public);
                    }
                }
                item => {
                    let Some((name, visibility)) = name_of(&item) else { continue };
                    if is_pub(visibility) {
                        if is_public {
                            self.exported.insert(name.clone());
                        }
                        self.items.entry(name).or_default().push(item);
                    }
                }
            }
        }
    }

    fn module(&mut self, module: ItemMod, directory: &Path, parent_is_public: bool) {
        if module.attrs.iter().any(is_test_only) {
            return;
        }
        let is_public = parent_is_public && is_pub(&module.vis);
        let name = module.ident.to_string();
        if is_public {
            let mut shown = module.clone();
            shown.attrs.retain(is_shown);
            shown.content = None;
            shown.semi = Some(Default::default());
            self.modules.push(Item::Mod(shown));
        }
        if let Some((_, items)) = module.content {
            self.take(File { shebang: None, attrs: Vec::new(), items }, &directory.join(&name), is_public);
            return;
        }
        let candidates: [PathBuf; 2] =
            [directory.join(format!("{name}.rs")), directory.join(&name).join("mod.rs")];
        if let Some(path) = candidates.iter().find(|path| path.exists()) {
            self.file(path, &directory.join(&name), is_public);
        }
    }

    /// The whole promise: re-exports, modules, then each name with what is implemented for it.
    fn listing(&self) -> String {
        let mut items = self.foreign.clone();
        items.extend(self.modules.clone());
        for name in &self.exported {
            items.extend(self.items.get(name).into_iter().flatten().cloned().map(shown_item));
            items.extend(self.impls.iter().filter(|block| concerns(block, name)).filter_map(shown_impl));
        }
        for item in &mut items {
            if let Item::Use(import) = item {
                import.attrs.retain(is_shown);
            }
        }
        prettyplease::unparse(&File { shebang: None, attrs: Vec::new(), items })
    }
}

fn is_pub(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test_only(attribute: &Attribute) -> bool {
    let text = prettyplease::unparse(&parse_quote! { #attribute mod x; });
    attribute.path().is_ident("cfg") && ["cfg(test)", "cfg(all(test,"].iter().any(|cfg| text.contains(cfg))
}

/// What a user of the crate can see.
fn is_shown(attribute: &Attribute) -> bool {
    ["cfg", "derive", "must_use", "non_exhaustive", "deprecated"]
        .iter()
        .any(|name| attribute.path().is_ident(name))
        || attribute.path().is_ident("doc") && matches!(attribute.meta, syn::Meta::List(_))
}

/// The names at the ends of a `use`, if it leads into this crate.
fn leaves(tree: &UseTree, modules: &BTreeSet<String>, is_first: bool, names: &mut BTreeSet<String>) -> bool {
    match tree {
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            let is_ours =
                !is_first || modules.contains(&first) || ["crate", "self", "super"].contains(&&*first);
            is_ours && leaves(&path.tree, modules, false, names)
        }
        UseTree::Name(name) => {
            names.insert(name.ident.to_string());
            !is_first
        }
        UseTree::Rename(rename) => {
            names.insert(rename.ident.to_string());
            !is_first
        }
        UseTree::Glob(_) => false,
        UseTree::Group(group) => {
            let found: Vec<bool> =
                group.items.iter().map(|tree| leaves(tree, modules, is_first, names)).collect();
            found.into_iter().all(|is_ours| is_ours)
        }
    }
}

fn name_of(item: &Item) -> Option<(String, &Visibility)> {
    Some(match item {
        Item::Struct(it) => (it.ident.to_string(), &it.vis),
        Item::Enum(it) => (it.ident.to_string(), &it.vis),
        Item::Trait(it) => (it.ident.to_string(), &it.vis),
        Item::Type(it) => (it.ident.to_string(), &it.vis),
        Item::Const(it) => (it.ident.to_string(), &it.vis),
        Item::Static(it) => (it.ident.to_string(), &it.vis),
        Item::Fn(it) => (it.sig.ident.to_string(), &it.vis),
        _ => return None,
    })
}

/// Without documentation, bodies and private fields.
fn shown_item(mut item: Item) -> Item {
    match &mut item {
        Item::Struct(it) => {
            it.attrs.retain(is_shown);
            hide_private(&mut it.fields);
        }
        Item::Enum(it) => {
            it.attrs.retain(is_shown);
            for variant in &mut it.variants {
                variant.attrs.retain(is_shown);
                variant.fields.iter_mut().for_each(|field| field.attrs.retain(is_shown));
            }
        }
        Item::Trait(it) => {
            it.attrs.retain(is_shown);
            it.items.iter_mut().for_each(shorten);
        }
        Item::Type(it) => it.attrs.retain(is_shown),
        Item::Const(it) => it.attrs.retain(is_shown),
        Item::Static(it) => it.attrs.retain(is_shown),
        Item::Fn(it) => {
            it.attrs.retain(is_shown);
            it.block = parse_quote!({});
        }
        _ => {}
    }
    item
}

fn shorten(item: &mut TraitItem) {
    match item {
        TraitItem::Fn(it) => {
            it.attrs.retain(is_shown);
            if it.default.is_some() {
                it.default = Some(parse_quote!({}));
            }
        }
        TraitItem::Type(it) => it.attrs.retain(is_shown),
        TraitItem::Const(it) => it.attrs.retain(is_shown),
        _ => {}
    }
}

fn hide_private(fields: &mut Fields) {
    match fields {
        Fields::Named(named) => {
            let kept = std::mem::take(&mut named.named).into_iter().filter(|field| is_pub(&field.vis));
            named.named = kept.collect();
        }
        Fields::Unnamed(unnamed) => {
            for field in unnamed.unnamed.iter_mut().filter(|field| !is_pub(&field.vis)) {
                // Its place is kept, its type is private.
                field.ty = parse_quote!(_);
            }
        }
        Fields::Unit => {}
    }
    fields.iter_mut().for_each(|field| field.attrs.retain(is_shown));
}

fn last_name(path: &syn::Path) -> String {
    path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default()
}

/// Whether a block is of this type; or of this trait, for a type of another crate.
fn concerns(block: &ItemImpl, name: &str) -> bool {
    let mut of = &*block.self_ty;
    while let Type::Reference(reference) = of {
        of = &reference.elem;
    }
    let of_type =
        matches!(of, Type::Path(path) if last_name(&path.path) == name && path.path.segments.len() == 1);
    of_type || block.trait_.as_ref().is_some_and(|(_, path, _)| last_name(path) == name)
}

fn shown_impl(block: &ItemImpl) -> Option<Item> {
    let mut block = block.clone();
    block.attrs.retain(is_shown);
    let is_inherent = block.trait_.is_none();
    block.items.retain(|item| match item {
        ImplItem::Fn(it) => is_inherent && is_pub(&it.vis),
        ImplItem::Const(it) => is_inherent && is_pub(&it.vis),
        ImplItem::Type(_) => true,
        _ => false,
    });
    for item in &mut block.items {
        match item {
            ImplItem::Fn(it) => {
                it.attrs.retain(is_shown);
                it.block = parse_quote!({});
            }
            ImplItem::Const(it) => it.attrs.retain(is_shown),
            ImplItem::Type(it) => it.attrs.retain(is_shown),
            _ => {}
        }
    }
    let is_empty = is_inherent && block.items.is_empty();
    (!is_empty).then_some(Item::Impl(block))
}
