// node-postgres, with its cursors and COPY streams: what its documentation shows.
import { createRequire } from 'node:module'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

const require = createRequire(process.env.CLIENTS_NODE + '/')
const pg = require('pg')
const Cursor = require('pg-cursor')
const copy = require('pg-copy-streams')

const shown = (value) => JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}n` : Buffer.isBuffer(v) ? v.toString('hex') : v))
const fields = ['schema', 'table', 'column', 'dataType', 'constraint', 'position', 'detail', 'hint']
const told = (e) => (e.code ? `error ${e.code} ${e.message} ` + fields.filter((f) => e[f]).map((f) => `${f}=${e[f]}`).join(' ') : `error ${e.message}`)

async function check(name, work) {
  let text
  try { text = shown(await work()) } catch (e) { text = told(e) }
  // What a failed check left open is not the next one's.
  if (client.getTransactionStatus?.() === 'E' || client.getTransactionStatus?.() === 'T') await client.query('ROLLBACK')
  console.log(`${name}\t${String(text).replace(/\s+/g, ' ')}`)
}

const values = {
  bool: true, int2: 5, int4: -6, int8: '9007199254740993', float4: 1.5, float8: 0.1, numeric: '1.50', 'numeric(6,3)': '1.5', text: 'ä☃', 'varchar(3)': 'abc', 'char(4)': 'ab',
  bytea: Buffer.from([0, 255]), date: '2026-01-02', timestamp: '2026-01-02 03:04:05.678', timestamptz: '2026-01-02T03:04:05Z', time: '01:02:03', interval: '1 day 02:03:04',
  uuid: '00000000-0000-0000-0000-000000000005', json: { a: [1, null] }, jsonb: { b: 2, a: 1 }, 'int4[]': [1, null, 3], 'text[]': ['a', 'b,c'], inet: '10.0.0.1',
}

async function types(client) {
  for (const [name, value] of Object.entries(values)) {
    const parameter = name.startsWith('json') ? JSON.stringify(value) : value
    await check(`value ${name}`, async () => (await client.query(`SELECT $1::${name} AS v`, [parameter])).rows)
    await check(`text ${name}`, async () => (await client.query(`SELECT NULL::${name} AS v`)).fields.map((f) => [f.name, f.dataTypeID, f.dataTypeSize, f.dataTypeModifier]))
    await check(`column ${name}`, async () => {
      await client.query(`CREATE TABLE typed (v ${name})`)
      await client.query('INSERT INTO typed VALUES ($1), (NULL)', [parameter])
      const { rows } = await client.query('SELECT v FROM typed')
      await client.query('DROP TABLE typed')
      return rows
    })
  }
  await check('binary', async () => (await client.query({ text: 'SELECT 1::int4 AS i, 2::int8 AS l, 0.5::float8 AS f, true AS b, now() > $1 AS later', values: ['2000-01-01'], binary: true })).rows)
}

async function statements(client) {
  await check('create', () => client.query('CREATE TABLE users (id serial PRIMARY KEY, name text UNIQUE NOT NULL, age int CHECK (age > 0))').then((r) => r.command))
  await check('insert', () => client.query('INSERT INTO users (name, age) VALUES ($1, $2), ($3, $4) RETURNING *', ['Ann', 30, 'Bob', null]).then((r) => [r.rows, r.rowCount, r.command]))
  for (let i = 0; i < 3; i++) await check(`named ${i}`, () => client.query({ name: 'by-id', text: 'SELECT name FROM users WHERE id = $1', values: [i] }).then((r) => r.rows))
  await check('array mode', () => client.query({ text: 'SELECT id, name FROM users ORDER BY id', rowMode: 'array' }).then((r) => r.rows))
  await check('any', () => client.query('SELECT name FROM users WHERE id = ANY($1) ORDER BY 1', [[1, 2]]).then((r) => r.rows))
  await check('several', () => client.query('SELECT 1 AS a; SELECT 2 AS b').then((rs) => rs.map((r) => r.rows)))
  await check('null', () => client.query('SELECT $1::text IS NULL AS n', [null]).then((r) => r.rows))
  await check('date', () => client.query('SELECT $1::timestamptz AS at', [new Date(0)]).then((r) => r.rows))
  await check('cursor', async () => {
    const cursor = client.query(new Cursor('SELECT i FROM generate_series(1, $1::int) AS s(i)', [25]))
    const sizes = []
    for (let rows = await cursor.read(10); rows.length; rows = await cursor.read(10)) sizes.push(rows.length)
    await cursor.close()
    return sizes
  })
  await check('copy in', async () => {
    const stream = client.query(copy.from('COPY users (name, age) FROM STDIN'))
    await pipeline(Readable.from(['Cid\t40\nD', 'ee\t\\N\n']), stream)
    return stream.rowCount
  })
  await check('copy out', async () => {
    const parts = []
    for await (const part of client.query(copy.to('COPY users TO STDOUT (FORMAT csv, HEADER)'))) parts.push(part)
    return Buffer.concat(parts).toString()
  })
}

async function transactions(client, pool) {
  await check('savepoint', async () => {
    await client.query('BEGIN')
    await client.query("INSERT INTO users (name) VALUES ('outer')")
    await client.query('SAVEPOINT s')
    const code = await client.query("INSERT INTO users (name) VALUES ('outer')").catch((e) => [e.code, e.constraint, e.table, e.schema, e.detail])
    await client.query('ROLLBACK TO SAVEPOINT s')
    await client.query('COMMIT')
    return [code, (await client.query("SELECT count(*) FROM users WHERE name = 'outer'")).rows]
  })
  await check('pool', async () => (await Promise.all([1, 2, 3, 4].map((i) => pool.query('SELECT $1::int AS i', [i])))).map((r) => r.rows[0].i))
  await check('serialization', async () => {
    const [a, b] = [await pool.connect(), await pool.connect()]
    try {
      for (const c of [a, b]) { await c.query('BEGIN ISOLATION LEVEL SERIALIZABLE'); await c.query('SELECT sum(age) FROM users') }
      await a.query("UPDATE users SET age = 31 WHERE name = 'Ann'")
      await b.query("UPDATE users SET age = 41 WHERE name = 'Bob'")
      await a.query('COMMIT')
      return await b.query('COMMIT').catch((e) => e.code)
    } finally { a.release(true); b.release(true) }
  })
}

async function errors(client) {
  for (const text of ['SELEC 1', 'SELECT * FROM nowhere', 'SELECT nothing FROM users', "INSERT INTO users (name) VALUES ('Ann')", 'INSERT INTO users (age) VALUES (1)',
    "INSERT INTO users (name, age) VALUES ('e', -1)", "SELECT 'x'::int", 'SELECT 1/0', 'SELECT 1 +', 'SELECT $1', 'DROP TABLE nowhere'])
    await check(`error of ${text}`, () => client.query(text).then((r) => r.rows))
  await check('wrong parameter', () => client.query('SELECT $1::int', ['x']).then((r) => r.rows))
  await check('missing parameter', () => client.query('SELECT $1::int + $2::int', [1]).then((r) => r.rows))
}

async function others(client, pool) {
  await check('listen', async () => {
    const heard = new Promise((resolve) => client.once('notification', (m) => resolve([m.channel, m.payload])))
    await client.query('LISTEN news')
    await pool.query("NOTIFY news, 'hello'")
    return Promise.race([heard, new Promise((resolve) => setTimeout(resolve, 3000, 'nothing came'))])
  })
  await check('notice', async () => {
    const heard = new Promise((resolve) => client.once('notice', (m) => resolve([m.severity, m.code, m.message])))
    await client.query('DROP TABLE IF EXISTS nowhere')
    return Promise.race([heard, new Promise((resolve) => setTimeout(resolve, 3000, 'nothing came'))])
  })
  await check('statement timeout', async () => {
    const other = new pg.Client({ statement_timeout: 200, application_name: 'a check', options: '-c lock_timeout=100' })
    await other.connect()
    try {
      const set = await other.query('SHOW application_name')
      return [set.rows, await other.query('SELECT pg_sleep(10)').catch((e) => e.code)]
    } finally { await other.end() }
  })
  await check('terminate', async () => {
    const other = new pg.Client()
    await other.connect()
    const ended = new Promise((resolve) => other.on('error', (e) => resolve(e.code ?? e.message)))
    const { rows } = await client.query('SELECT pg_terminate_backend($1)', [other.processID])
    return [rows, await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 3000, 'nothing came'))])]
  })
  await check('pipelined', () => Promise.all([client.query('SELECT 1 AS a'), client.query('SELECT 2 AS a')]).then((rs) => rs.map((r) => r.rows)))
}

const client = new pg.Client()
const pool = new pg.Pool({ max: 3 })
await check('connect', () => client.connect().then(() => client.serverVersion))
for (const part of [types, statements, transactions, errors, others]) await check(`part ${part.name}`, () => part(client, pool))
await check('end', async () => { await client.end(); await pool.end() })
