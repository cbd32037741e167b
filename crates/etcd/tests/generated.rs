//! Checks that the generated code in the tree is what the files in `proto/` compile to: the
//! messages, and the gateway's table of them.

mod table;

use std::fs;
use std::path::{Path, PathBuf};

/// The files of `proto/`, each after those that it imports.
const TEXTS: [&str; 7] = [
    "auth.proto",
    "kv.proto",
    "rpc.proto",
    "v3lock.proto",
    "v3election.proto",
    "health.proto",
    "lease.proto",
];

/// The head of a generated file.
fn header(what: &str, text: &str) -> String {
    format!(
        "//! {what} of `proto/{text}`, generated.\n\
         //! `QUORATE_REGENERATE=1 cargo test --package etcd --test generated` writes this file \
         anew.\n"
    )
}

/// The files to generate: path in the crate, and contents.
fn generate() -> Vec<(String, String)> {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = protox::compile(TEXTS, [&proto]).expect("the texts compile");
    let mut config = prost_build::Config::new();
    config.bytes(["."]);
    let module = |package: &str| prost_build::Module::from_protobuf_package_name(package);
    let requests = files.file.iter().map(|file| (module(file.package()), file.clone())).collect();
    let mut code = config.generate(requests).expect("it has code");
    let mut generated = Vec::new();
    for file in &files.file {
        let package = file.package();
        let code = code.remove(&module(package)).expect("a package has one text");
        // The package of the health check has a name of three parts; one module is enough for it.
        let name = if package == "grpc.health.v1" { "health" } else { package };
        let head = header("The messages", file.name());
        generated.push((format!("src/pb/{name}.rs"), head + &code));
    }
    let table = header("The gateway's table of the messages", "*.proto") + &table::table(&files);
    generated.push(("src/gateway/table.rs".to_string(), table));
    generated
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test compares files; the crate has none")]
fn the_committed_code_is_what_the_texts_say() {
    let crate_dir = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    for (path, generated) in generate() {
        let committed = crate_dir.join(&path);
        if std::env::var_os("QUORATE_REGENERATE").is_some() {
            fs::write(&committed, &generated).expect("the file can be written");
        }
        let committed = fs::read_to_string(&committed).expect("the code is committed");
        assert!(committed == generated, "{path} is not what the texts in proto/ say");
    }
}
