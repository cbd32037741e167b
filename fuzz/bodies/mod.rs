//! Tests of all decoders with arbitrary bytes: one function, a body, for each decoder. A body must
//! return for every input; what decodes, it encodes and decodes again, and compares.
//!
//! Each fuzz target calls the body of its name. `crates/quorate/tests/fuzz_bodies.rs` calls all
//! bodies without a fuzzer, with truncated and mutated seeds. The seeds are beside each body.

mod of_chunk;
mod of_config;
mod of_etcd;
mod of_grpc;
mod of_machine;
mod of_member;
mod of_replica;
mod of_storage;
mod of_tls;
mod of_token;
mod of_zk;

/// The test of one decoder.
pub struct Body {
    /// The body's name, which its fuzz target shares.
    pub name: &'static str,
    /// Tries these bytes. Panics if the decoder is wrong.
    pub run: fn(&[u8]),
    /// Valid encodings. A search starts from them.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every body, each with a fuzz target.
pub const BODIES: [Body; 57] = [
    Body { name: "chunk_block", run: of_chunk::chunk_block, seeds: of_chunk::chunk_block_seeds },
    Body {
        name: "chunk_checkpoint",
        run: of_chunk::chunk_checkpoint,
        seeds: of_chunk::chunk_checkpoint_seeds,
    },
    Body { name: "chunk_record", run: of_chunk::chunk_record, seeds: of_chunk::chunk_record_seeds },
    Body {
        name: "chunk_request",
        run: of_chunk::chunk_request,
        seeds: of_chunk::chunk_request_seeds,
    },
    Body {
        name: "chunk_segment_head",
        run: of_chunk::chunk_segment_head,
        seeds: of_chunk::chunk_segment_head_seeds,
    },
    Body {
        name: "chunk_checkpoint_head",
        run: of_chunk::chunk_checkpoint_head,
        seeds: of_chunk::chunk_checkpoint_head_seeds,
    },
    Body {
        name: "chunk_identity",
        run: of_chunk::chunk_identity,
        seeds: of_chunk::chunk_identity_seeds,
    },
    Body { name: "chunk_answer", run: of_chunk::chunk_answer, seeds: of_chunk::chunk_answer_seeds },
    Body { name: "command", run: of_machine::command, seeds: of_machine::command_seeds },
    Body { name: "steps", run: of_machine::steps, seeds: of_machine::steps_seeds },
    Body { name: "entry", run: of_machine::entry, seeds: of_machine::entry_seeds },
    Body { name: "identities", run: of_machine::identities, seeds: of_machine::identities_seeds },
    Body { name: "image", run: of_machine::image, seeds: of_machine::image_seeds },
    Body { name: "wal_frame", run: of_storage::wal_frame, seeds: of_storage::wal_frame_seeds },
    Body { name: "wal_head", run: of_storage::wal_head, seeds: of_storage::wal_head_seeds },
    Body {
        name: "wal_hard_state",
        run: of_storage::wal_hard_state,
        seeds: of_storage::wal_hard_state_seeds,
    },
    Body {
        name: "wal_membership",
        run: of_storage::wal_membership,
        seeds: of_storage::wal_membership_seeds,
    },
    Body {
        name: "wal_snapshot_point",
        run: of_storage::wal_snapshot_point,
        seeds: of_storage::wal_snapshot_point_seeds,
    },
    Body { name: "wal_slot", run: of_storage::wal_slot, seeds: of_storage::wal_slot_seeds },
    Body {
        name: "wal_segment",
        run: of_storage::wal_segment,
        seeds: of_storage::wal_segment_seeds,
    },
    Body {
        name: "snapshot_header",
        run: of_storage::snapshot_header,
        seeds: of_storage::snapshot_header_seeds,
    },
    Body {
        name: "snapshot_piece",
        run: of_storage::snapshot_piece,
        seeds: of_storage::snapshot_piece_seeds,
    },
    Body {
        name: "snapshot_trailer",
        run: of_storage::snapshot_trailer,
        seeds: of_storage::snapshot_trailer_seeds,
    },
    Body {
        name: "identity_file",
        run: of_storage::identity_file,
        seeds: of_storage::identity_file_seeds,
    },
    Body { name: "draft_file", run: of_storage::draft_file, seeds: of_storage::draft_file_seeds },
    Body { name: "birth_file", run: of_storage::birth_file, seeds: of_storage::birth_file_seeds },
    Body { name: "boot_file", run: of_storage::boot_file, seeds: of_storage::boot_file_seeds },
    Body { name: "membership", run: of_replica::membership, seeds: of_replica::membership_seeds },
    Body {
        name: "membership_change",
        run: of_replica::membership_change,
        seeds: of_replica::membership_change_seeds,
    },
    Body {
        name: "peer_message",
        run: of_replica::peer_message,
        seeds: of_replica::peer_message_seeds,
    },
    Body {
        name: "member_message",
        run: of_member::member_message,
        seeds: of_member::member_message_seeds,
    },
    Body { name: "hello", run: of_member::hello, seeds: of_member::hello_seeds },
    Body {
        name: "connect_request",
        run: of_zk::connect_request,
        seeds: of_zk::connect_request_seeds,
    },
    Body {
        name: "connect_response",
        run: of_zk::connect_response,
        seeds: of_zk::connect_response_seeds,
    },
    Body {
        name: "four_letter_word",
        run: of_zk::four_letter_word,
        seeds: of_zk::four_letter_word_seeds,
    },
    Body { name: "jute_request", run: of_zk::jute_request, seeds: of_zk::jute_request_seeds },
    Body {
        name: "requests_applied",
        run: of_zk::requests_applied,
        seeds: of_zk::requests_applied_seeds,
    },
    Body { name: "response", run: of_zk::response, seeds: of_zk::response_seeds },
    Body { name: "jks", run: of_tls::jks, seeds: of_tls::jks_seeds },
    Body { name: "subject_name", run: of_tls::subject_name, seeds: of_tls::subject_name_seeds },
    Body { name: "sasl_token", run: of_zk::sasl_token, seeds: of_zk::sasl_token_seeds },
    Body { name: "gzip_message", run: of_grpc::gzip_message, seeds: of_grpc::gzip_message_seeds },
    Body { name: "etcd_request", run: of_etcd::etcd_request, seeds: of_etcd::etcd_request_seeds },
    Body { name: "etcd_json", run: of_etcd::etcd_json, seeds: of_etcd::etcd_json_seeds },
    Body {
        name: "etcd_v2_request",
        run: of_etcd::etcd_v2_request,
        seeds: of_etcd::etcd_v2_request_seeds,
    },
    Body { name: "etcd_message", run: of_etcd::etcd_message, seeds: of_etcd::etcd_message_seeds },
    Body { name: "token_claims", run: of_token::token_claims, seeds: of_token::token_claims_seeds },
    Body { name: "token_jwt", run: of_token::token_jwt, seeds: of_token::token_jwt_seeds },
    Body {
        name: "token_key_file",
        run: of_token::token_key_file,
        seeds: of_token::token_key_file_seeds,
    },
    Body {
        name: "token_options",
        run: of_token::token_options,
        seeds: of_token::token_options_seeds,
    },
    Body {
        name: "list_changes",
        run: of_machine::list_changes,
        seeds: of_machine::list_changes_seeds,
    },
    Body {
        name: "servers_file",
        run: of_storage::servers_file,
        seeds: of_storage::servers_file_seeds,
    },
    Body {
        name: "kept_servers",
        run: of_config::kept_servers,
        seeds: of_config::kept_servers_seeds,
    },
    Body {
        name: "dynamic_file",
        run: of_config::dynamic_file,
        seeds: of_config::dynamic_file_seeds,
    },
    Body { name: "handshake", run: of_member::handshake, seeds: of_member::handshake_seeds },
    Body { name: "server_text", run: of_zk::server_text, seeds: of_zk::server_text_seeds },
    Body { name: "reconfig", run: of_zk::reconfig, seeds: of_zk::reconfig_seeds },
];

/// Runs the body with this name.
pub fn run(name: &str, bytes: &[u8]) {
    let body =
        BODIES.iter().find(|body| body.name == name).expect("a target is named after a body");
    (body.run)(bytes);
}
