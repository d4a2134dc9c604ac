// Public functions, which check the shape of their arguments themselves. Where Convex does, its refusal prints all
// arguments into the log, and into the answer of a development deployment: callers' tokens, sessions, pairing codes. A
// refusal from here names a field, and no value.

import type { RegisteredMutation, RegisteredQuery } from "convex/server";
import { type GenericValidator, type ObjectType, type PropertyValidators, v } from "convex/values";

import { mutation as registerMutation, query as registerQuery } from "../_generated/server";
import type { MutationCtx, QueryCtx } from "../_generated/server";

type Declared<Ctx, A extends PropertyValidators, R extends GenericValidator> = {
  args: A;
  returns: R;
  handler: (ctx: Ctx, asked: ObjectType<A>) => Promise<R["type"]>;
};
type Handler<Ctx> = (ctx: Ctx, given: Record<string, unknown>) => Promise<unknown>;
type Register<Ctx> = (made: { returns: GenericValidator; handler: Handler<Ctx> }) => object;

/** A query that anybody may call. */
export function query<A extends PropertyValidators, R extends GenericValidator>(declared: Declared<QueryCtx, A, R>) {
  const made = register(registerQuery as unknown as Register<QueryCtx>, declared);
  return made as RegisteredQuery<"public", ObjectType<A>, Promise<R["type"]>>;
}

/** A mutation that anybody may call. */
export function mutation<A extends PropertyValidators, R extends GenericValidator>(
  declared: Declared<MutationCtx, A, R>,
) {
  const made = register(registerMutation as unknown as Register<MutationCtx>, declared);
  return made as RegisteredMutation<"public", ObjectType<A>, Promise<R["type"]>>;
}

/** Registers a function. What it takes stands beside it, as Convex's own export says nothing of it. */
function register<Ctx, A extends PropertyValidators, R extends GenericValidator>(
  registerAt: Register<Ctx>,
  { args, returns, handler }: Declared<Ctx, A, R>,
): object {
  const made = registerAt({ returns, handler: async (ctx, given) => await handler(ctx, checked(args, given)) });
  const { json } = v.object(args) as unknown as { json: unknown };
  return Object.assign(made, { declaredArgs: () => JSON.stringify(json) });
}

/** The arguments, if they have the declared shape. */
function checked<A extends PropertyValidators>(args: A, given: Record<string, unknown>): ObjectType<A> {
  const fault = faultOf(v.object(args), given, "");
  if (fault !== undefined) throw new Error(`ArgumentValidationError: ${fault}`);
  return given as ObjectType<A>;
}

/** What is wrong with a value, without the value; nothing where it fits. */
function faultOf(validator: GenericValidator, value: unknown, at: string): string | undefined {
  switch (validator.kind) {
    case "object":
      return isObject(value) ? faultOfFields(validator.fields, value, at) : mistyped(at);
    case "array": {
      if (!Array.isArray(value)) return mistyped(at);
      for (const one of value) {
        const fault = faultOf(validator.element, one, at);
        if (fault !== undefined) return fault;
      }
      return undefined;
    }
    case "union": {
      const fits = validator.members.some((member: GenericValidator) => faultOf(member, value, at) === undefined);
      return fits ? undefined : mistyped(at);
    }
    case "literal":
      return value === validator.value ? undefined : mistyped(at);
    case "null":
      return value === null ? undefined : mistyped(at);
    case "string":
    case "boolean":
      return typeof value === validator.kind ? undefined : mistyped(at);
    case "float64":
      return typeof value === "number" ? undefined : mistyped(at);
    case "int64":
      return typeof value === "bigint" ? undefined : mistyped(at);
    default:
      throw new Error(`no public function takes a value of the kind ${validator.kind}`);
  }
}

function faultOfFields(
  fields: Record<string, GenericValidator>,
  value: Record<string, unknown>,
  at: string,
): string | undefined {
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(fields, name)) return `the field ${at}${JSON.stringify(name.slice(0, 40))} is unknown`;
  }
  for (const [name, field] of Object.entries(fields)) {
    const place = `${at}${JSON.stringify(name)}`;
    if (value[name] !== undefined) {
      const fault = faultOf(field, value[name], place);
      if (fault !== undefined) return fault;
    } else if (field.isOptional !== "optional") {
      return `the field ${place} is missing`;
    }
  }
  return undefined;
}

function mistyped(at: string): string {
  return `the field ${at} has another type`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ArrayBuffer);
}
