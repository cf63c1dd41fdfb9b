//! `GET /v1/openapi.json`: the interface, from the types of `messages`.
//!
//! Generated, so that it cannot say anything else than what the service reads and writes; only the list
//! of calls stands here.

use http::StatusCode;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::error::CallError;
use super::messages::{
    AcquireCall, Acquired, CheckCall, ExtendCall, Extended, FinishCall, Finished, Health, HostAnswer,
    HostsAnswer, PermissionsCall,
};
use crate::check::CheckLine;
use crate::tags::TagsLine;

/// OpenAPI 3.1, whose schemas are JSON Schema.
pub(crate) fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut schemas = settings.into_generator();
    let of = &mut schemas;
    let paths = json!({
        "/v1/check": post::<CheckCall, CheckLine<'static>>(of, "May this URL be fetched? Acquires nothing"),
        "/v1/acquire": post::<AcquireCall, Acquired>(of, "Wait until the request may go out"),
        "/v1/finish": post::<FinishCall, Finished>(of, "Report how the request ended, which ends its permit"),
        "/v1/extend": post::<ExtendCall, Extended>(of, "Give a permit more time"),
        "/v1/permissions": post::<PermissionsCall, TagsLine>(of, "What does this response permit?"),
        "/v1/hosts": get(json_of::<HostsAnswer>(of), of, "Reports of the busiest hosts"),
        "/v1/hosts/{host}": host(of),
        "/v1/openapi.json": get(json!({ "application/json": {} }), of, "This document"),
        "/healthz": get(json_of::<Health>(of), of, "Whether the server runs"),
        "/metrics": get(json!({ "text/plain": {} }), of, "Metrics for Prometheus"),
    });
    let schemas: Map<String, Value> = schemas.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "abide serve",
            "description": "robots.txt, delays and permissions for crawlers in any language.",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
        "security": [{}, { "token": [] }],
    })
}

fn post<C: JsonSchema, A: JsonSchema>(schemas: &mut SchemaGenerator, summary: &str) -> Value {
    let body = json!({ "required": true, "content": json_of::<C>(schemas) });
    let answer = json_of::<A>(schemas);
    json!({ "post": { "summary": summary, "requestBody": body, "responses": responses(answer, schemas) } })
}

fn get(answer: Value, schemas: &mut SchemaGenerator, summary: &str) -> Value {
    json!({ "get": { "summary": summary, "responses": responses(answer, schemas) } })
}

fn host(schemas: &mut SchemaGenerator) -> Value {
    let name = json!({ "name": "host", "in": "path", "required": true, "schema": { "type": "string" } });
    let responses = responses(json_of::<HostAnswer>(schemas), schemas);
    json!({ "get": { "summary": "The report of one host", "parameters": [name], "responses": responses } })
}

fn responses(answer: Value, schemas: &mut SchemaGenerator) -> Value {
    let error = json_of::<CallError>(schemas);
    json!({
        StatusCode::OK.as_str(): { "description": "The answer", "content": answer },
        "default": { "description": "The call is wrong, or cannot be served", "content": error },
    })
}

fn json_of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    let schema: Schema = schemas.subschema_for::<T>();
    json!({ "application/json": { "schema": schema } })
}
