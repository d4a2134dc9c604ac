//! The token files of the embedded backend, for `dev` and `backend`: only for its own address.

use punie_core::caller_name::COMMAND_LINE;
use punie_dev_backend::{CallerPermission, DevBackend};
use punie_home::{BackendTokens, Home, TokenName};
use punie_text::redact::Secret;

/// The callers' tokens that are made here, each with its caller's name. An agent gets the first one, which cannot
/// approve what the agent asks for; the commands of this home use the second one.
const CALLERS: [(TokenName, &str, CallerPermission); 2] = [
    (TokenName::Caller, "agent", CallerPermission::Ask),
    (TokenName::Approver, COMMAND_LINE, CallerPermission::Both),
];

/// Writes valid callers' tokens and the admin key. Moves the tokens of an earlier start at another port.
pub fn prepare_tokens(backend: &DevBackend, home: &Home) -> anyhow::Result<BackendTokens> {
    let own = BackendTokens::for_backend(home, backend.listen_url());
    if !belong_to_backend(&own, backend) {
        clear_stale_tokens(&own, backend)?;
        move_earlier_tokens(&own, backend, home)?;
    }
    for (token, name, may) in CALLERS {
        if !is_valid_token(&own, token, backend)? {
            let minted = backend.mint_caller_token(name, may)?;
            own.write(token, &Secret::new(minted))?;
        }
    }
    if !belong_to_backend(&own, backend) {
        own.write(
            TokenName::Admin,
            &Secret::new(backend.admin_key().to_owned()),
        )?;
    }
    Ok(own)
}

/// Returns whether these were written for this backend: only it has this admin key.
fn belong_to_backend(tokens: &BackendTokens, backend: &DevBackend) -> bool {
    let kept = tokens.read(TokenName::Admin).ok().flatten();
    kept.is_some_and(|kept| kept.expose() == backend.admin_key())
}

/// Returns whether this folder has this caller's token and this backend accepts it.
fn is_valid_token(
    tokens: &BackendTokens,
    token: TokenName,
    backend: &DevBackend,
) -> anyhow::Result<bool> {
    let kept = tokens.read(token)?;
    Ok(kept.is_some_and(|kept| backend.caller_token_is_valid(kept.expose())))
}

/// Clears the tokens of another backend at this address. Only an embedded backend can create its tokens anew; callers'
/// tokens of any other are set aside.
fn clear_stale_tokens(own: &BackendTokens, backend: &DevBackend) -> anyhow::Result<()> {
    if own.path(TokenName::Admin).exists() {
        own.clone().remove()?;
        return Ok(());
    }
    for (token, ..) in CALLERS {
        if own.path(token).exists() && !is_valid_token(own, token, backend)? {
            own.set_aside(token)?;
        }
    }
    Ok(())
}

/// Moves the tokens of an earlier start, at another port or before each backend had a folder.
fn move_earlier_tokens(
    own: &BackendTokens,
    backend: &DevBackend,
    home: &Home,
) -> anyhow::Result<()> {
    for earlier in BackendTokens::for_all(home)? {
        if belong_to_backend(&earlier, backend) {
            for (token, ..) in CALLERS {
                own.move_token_from(&earlier, token)?;
            }
            own.move_token_from(&earlier, TokenName::Admin)?;
            earlier.remove()?;
        }
    }
    let unassigned = BackendTokens::unassigned(home);
    if belong_to_backend(&unassigned, backend) {
        own.move_token_from(&unassigned, TokenName::Admin)?;
        if is_valid_token(&unassigned, TokenName::Caller, backend)? {
            own.move_token_from(&unassigned, TokenName::Caller)?;
        }
    }
    Ok(())
}
