//! The token files of the embedded backend, for `dev` and `backend`: only for its own address. Not here: the tokens'
//! permissions (`dev_backend`).

use punie_dev_backend::{CallerPermission, DevBackend};
use punie_home::{BackendTokens, Home, TokenName};
use punie_text::redact::Secret;

/// Writes a valid caller's token and the admin key. Moves the tokens of an earlier start at another port.
pub fn prepare_tokens(backend: &DevBackend, home: &Home) -> anyhow::Result<BackendTokens> {
    let own = BackendTokens::for_backend(home, backend.listen_url());
    if !belong_to_backend(&own, backend) {
        clear_stale_tokens(&own, backend)?;
        move_earlier_tokens(&own, backend, home)?;
    }
    if valid_caller_token(&own, backend)?.is_none() {
        own.write_token(
            TokenName::Caller,
            &Secret::new(backend.mint_caller_token("command line", CallerPermission::Both)?),
        )?;
    }
    if !belong_to_backend(&own, backend) {
        own.write_token(
            TokenName::Admin,
            &Secret::new(backend.admin_key().to_owned()),
        )?;
    }
    Ok(own)
}

/// Returns whether these were written for this backend: only it has this admin key.
fn belong_to_backend(tokens: &BackendTokens, backend: &DevBackend) -> bool {
    let kept = tokens.read_token(TokenName::Admin).ok().flatten();
    kept.is_some_and(|kept| kept.expose() == backend.admin_key())
}

/// Returns the caller's token in this folder, if this backend accepts it.
fn valid_caller_token(
    tokens: &BackendTokens,
    backend: &DevBackend,
) -> anyhow::Result<Option<Secret<String>>> {
    Ok(tokens
        .read_token(TokenName::Caller)?
        .filter(|kept| backend.caller_token_is_valid(kept.expose())))
}

/// Clears the tokens of another backend at this address. Only an embedded backend can create its tokens anew; a
/// caller's token of any other is set aside.
fn clear_stale_tokens(own: &BackendTokens, backend: &DevBackend) -> anyhow::Result<()> {
    if own.token_path(TokenName::Admin).exists() {
        own.clone().remove_tokens()?;
    } else if own.token_path(TokenName::Caller).exists()
        && valid_caller_token(own, backend)?.is_none()
    {
        own.set_token_aside(TokenName::Caller)?;
    }
    Ok(())
}

/// Moves the tokens of an earlier start, at another port or before each backend had a folder.
fn move_earlier_tokens(
    own: &BackendTokens,
    backend: &DevBackend,
    home: &Home,
) -> anyhow::Result<()> {
    for earlier in BackendTokens::for_all_backends(home)? {
        if belong_to_backend(&earlier, backend) {
            own.move_token_from(&earlier, TokenName::Caller)?;
            own.move_token_from(&earlier, TokenName::Admin)?;
            earlier.remove_tokens()?;
        }
    }
    let unassigned = BackendTokens::unassigned_tokens(home);
    if belong_to_backend(&unassigned, backend) {
        own.move_token_from(&unassigned, TokenName::Admin)?;
        if valid_caller_token(&unassigned, backend)?.is_some() {
            own.move_token_from(&unassigned, TokenName::Caller)?;
        }
    }
    Ok(())
}
