//! The token files of the embedded backend, for `dev` and `backend`: only for its own address. Not here: the tokens'
//! permissions (`dev_backend`).

use crate::dev_backend::DevBackend;
use crate::home::{Home, TokenName, Tokens};
use crate::redact::Secret;

/// Writes a valid caller's token and the admin key. Moves the tokens of an earlier start at another port.
pub fn prepare(backend: &DevBackend, home: &Home) -> anyhow::Result<Tokens> {
    let own = Tokens::of(home, backend.url());
    if !is_of(&own, backend) {
        clear(&own, backend)?;
        take_over(&own, backend, home)?;
    }
    if caller(&own, backend)?.is_none() {
        own.write(TokenName::Caller, &Secret::new(backend.mint_caller("command line")?))?;
    }
    if !is_of(&own, backend) {
        own.write(TokenName::Admin, &Secret::new(backend.admin_key().to_owned()))?;
    }
    Ok(own)
}

/// Returns whether these were written for this backend: only it has this admin key.
fn is_of(tokens: &Tokens, backend: &DevBackend) -> bool {
    let kept = tokens.read(TokenName::Admin).ok().flatten();
    kept.is_some_and(|kept| kept.expose() == backend.admin_key())
}

/// Returns the caller's token in this folder, if this backend accepts it.
fn caller(tokens: &Tokens, backend: &DevBackend) -> anyhow::Result<Option<Secret<String>>> {
    Ok(tokens.read(TokenName::Caller)?.filter(|kept| backend.caller_token_is_valid(kept.expose())))
}

/// Clears the tokens of another backend at this address. Only an embedded backend can create its tokens anew; a
/// caller's token of any other is set aside.
fn clear(own: &Tokens, backend: &DevBackend) -> anyhow::Result<()> {
    if own.path(TokenName::Admin).exists() {
        own.clone().remove()?;
    } else if own.path(TokenName::Caller).exists() && caller(own, backend)?.is_none() {
        own.set_aside(TokenName::Caller)?;
    }
    Ok(())
}

/// Moves the tokens of an earlier start, at another port or before each backend had a folder.
fn take_over(own: &Tokens, backend: &DevBackend, home: &Home) -> anyhow::Result<()> {
    for earlier in Tokens::of_all(home)? {
        if is_of(&earlier, backend) {
            own.take_from(&earlier, TokenName::Caller)?;
            own.take_from(&earlier, TokenName::Admin)?;
            earlier.remove()?;
        }
    }
    let unassigned = Tokens::unassigned(home);
    if is_of(&unassigned, backend) {
        own.take_from(&unassigned, TokenName::Admin)?;
        if caller(&unassigned, backend)?.is_some() {
            own.take_from(&unassigned, TokenName::Caller)?;
        }
    }
    Ok(())
}
