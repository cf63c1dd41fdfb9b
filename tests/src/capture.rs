//! A subscriber that keeps every span and event of `tracing` on this thread.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// One span or event.
#[derive(Debug, Clone)]
pub struct Said {
    /// Its name.
    pub name: String,
    /// Its level, in lower case.
    pub level: String,
    /// Its target.
    pub target: String,
    /// The names of its fields, without the message.
    pub fields: Vec<String>,
    /// Its fields and values.
    pub text: String,
    /// The span around it.
    pub parent: Option<String>,
}

/// Everything that was said since [`listen`].
#[derive(Debug, Clone, Default)]
pub struct Captured {
    said: Arc<Mutex<Vec<Said>>>,
    spans: Arc<Mutex<HashMap<u64, usize>>>,
}

/// Listens on this thread until the guard is dropped.
pub fn listen() -> (Captured, DefaultGuard) {
    // While there is only one, tracing asks the thread that meets an event first whether it is wanted, and
    // keeps a no for all threads. With a second one it asks both.
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
    LazyLock::force(&SECOND);
    let captured = Captured::default();
    let subscriber = tracing_subscriber::registry().with(captured.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    (captured, guard)
}

impl Captured {
    /// What abide said.
    pub fn ours(&self) -> Vec<Said> {
        self.said.lock().unwrap().iter().filter(|said| said.target.starts_with("abide")).cloned().collect()
    }

    /// Everything.
    pub fn all(&self) -> Vec<Said> {
        self.said.lock().unwrap().clone()
    }

    /// What was said under this name.
    pub fn named(&self, name: &str) -> Vec<Said> {
        self.said.lock().unwrap().iter().filter(|said| said.name == name).cloned().collect()
    }

    fn write_down(&self, metadata: &Metadata<'_>, parent: Option<String>, text: Text) -> usize {
        let mut said = self.said.lock().unwrap();
        said.push(Said {
            name: metadata.name().to_owned(),
            level: metadata.level().to_string().to_ascii_lowercase(),
            target: metadata.target().to_owned(),
            fields: metadata
                .fields()
                .iter()
                .map(|field| field.name().to_owned())
                .filter(|name| name != "message")
                .collect(),
            text: text.0,
            parent,
        });
        said.len() - 1
    }
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Captured {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut text = Text::default();
        attributes.record(&mut text);
        let parent = context.span(id).and_then(|span| span.parent()).map(|span| span.name().to_owned());
        let place = self.write_down(attributes.metadata(), parent, text);
        self.spans.lock().unwrap().insert(id.into_u64(), place);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        values.record(&mut text);
        let place = self.spans.lock().unwrap().get(&id.into_u64()).copied();
        if let Some(place) = place {
            self.said.lock().unwrap()[place].text.push_str(&text.0);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let parent = context.event_span(event).map(|span| span.name().to_owned());
        self.write_down(event.metadata(), parent, text);
    }
}
