# The commands of daily work. `just` lists them.

_list:
    @just --list --unsorted

# All that a change must pass before it is merged
check:
    .ci/run

# Format the code
fmt:
    cargo fmt --all

# The lints alone
lint:
    cargo clippy --all-targets -- -D warnings
    cargo clippy --test '*' -- -D warnings

# The tests, or those whose names contain the given word
test *filter:
    cargo test {{filter}}

# The manual tests, against a device that runs (manual-tests/README.md)
manual *scenarios:
    cargo test --test manual -- {{scenarios}}

# The benches, or those whose names contain the given word
bench *filter:
    cargo bench {{filter}}

# Embedded backend and runner in one process, until stopped
dev *args:
    cargo run --release -- dev {{args}}

# One request per domain, each shown with what came of it
demo:
    cargo run --release -- demo

# The pages of the code's own documentation
doc:
    cargo doc --no-deps --document-private-items

# Licences, bans and sources of the dependencies, without the network
deny:
    cargo deny --offline check --hide-inclusion-graph bans licenses sources
