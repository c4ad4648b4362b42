//! CLUSTER, MODULE and the commands about replicas: there is no cluster, no module, and no replica.

use crate::call::Call;
use crate::failure::Outcome;
use crate::number::parse_i64;

pub(super) fn refuse(_: &mut Call<'_>) -> Outcome {
    Err("ERR This instance has cluster support disabled".into())
}

/// The modules that are loaded.
pub(super) fn modules(call: &mut Call<'_>) -> Outcome {
    call.reply().array(0);
    Ok(())
}

pub(super) fn refuse_module(_: &mut Call<'_>) -> Outcome {
    Err("ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it from \
         a local connection, otherwise you need to set this option in the configuration file, and then restart the \
         server."
        .into())
}

pub(super) fn module_help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "MODULE <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "LIST",
        "    Returns the modules that are loaded: there are none.",
        "LOAD <path> [<arg> ...]",
        "    Is refused.",
        "LOADEX <path> [<arg> ...]",
        "    Is refused.",
        "UNLOAD <name>",
        "    Is refused.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}

/// A master, at offset 0, without replicas.
pub(super) fn role(call: &mut Call<'_>) -> Outcome {
    let mut reply = call.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(())
}

/// Replies with the number of replicas that have the client's writes: 0, without waiting, because there are none.
pub(super) fn wait(call: &mut Call<'_>) -> Outcome {
    call.integer(1)?;
    call.timeout_ms(call.arg(2))?;
    call.reply().integer(0);
    Ok(())
}

/// Replies whether the client's writes are durable here, and how many replicas have them durable: 0. The event loop
/// makes all writes durable before it sends the reply, under any policy.
pub(super) fn waitaof(call: &mut Call<'_>) -> Outcome {
    let local = call.integer(1)?;
    if !(0..=1).contains(&local) {
        return Err("ERR value is out of range, value must between 0 and 1".into());
    }
    if parse_i64(call.arg(2)).is_none_or(|replicas| replicas < 0) {
        return Err("ERR value is out of range, must be positive".into());
    }
    call.timeout_ms(call.arg(3))?;
    let in_memory = call.service.settings.in_memory;
    if local > 0 && in_memory {
        return Err(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.".into()
        );
    }
    call.service.check_durable()?;
    call.service.sync_asked |= !in_memory;
    let mut reply = call.reply();
    reply.array(2);
    reply.integer(i64::from(!in_memory));
    reply.integer(0);
    Ok(())
}
