-- What is in the schema of abide-postgres, version 1.
-- Times and spans are whole microseconds, times since 1970, as in `HostEntry::encode` of abide-gate; 0 is the
-- time of what has not happened.

CREATE FUNCTION abide.version() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';

-- The one place where the clock is read.
CREATE FUNCTION abide.micros() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

CREATE FUNCTION abide.at(micros bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT to_timestamp(micros / 1000000.0)
$$;

-- The name of a host, an origin or a page as a key. Names are any bytes: what is no ASCII is escaped, and of
-- long ones the end is a checksum, because an index takes 2,700 bytes.
CREATE FUNCTION abide.key(name bytea) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN length(name) <= 512 THEN encode(name, 'escape')
    ELSE encode(substring(name FROM 1 FOR 448), 'escape') || '#' || encode(sha256(name), 'hex') END
$$;

-- Hosts that are in use: when a request was last on its way, the delay, the backoff; who has the lease until
-- when (0: it was given up), by which call; who waits for it, in line, each until when; the time of the last
-- exchange, and since when nothing was lost when it was written.
CREATE TABLE abide.host (
  host text PRIMARY KEY,
  last bigint NOT NULL DEFAULT 0,
  delay bigint NOT NULL DEFAULT 0,
  backoff bigint NOT NULL DEFAULT 0,
  throttles int NOT NULL DEFAULT 0,
  cause text NOT NULL DEFAULT 'none',
  holder text,
  leased_until bigint NOT NULL DEFAULT 0,
  number bigint NOT NULL DEFAULT 0,
  waiting text[] NOT NULL DEFAULT '{}',
  waiting_until bigint[] NOT NULL DEFAULT '{}',
  seen bigint NOT NULL DEFAULT 0,
  since bigint NOT NULL,
  kept_until bigint NOT NULL DEFAULT 0
-- Room on each page for the next version of a row, which then needs no entry in an index.
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX host_kept_until ON abide.host (kept_until);

-- Since when the server has known all that was written about hosts. Unlogged, so it is empty after a crash,
-- in a restored backup, and on a standby that was promoted: there the last commits may be missing.
CREATE UNLOGGED TABLE abide.run (one boolean PRIMARY KEY DEFAULT true CHECK (one), name text NOT NULL, since bigint NOT NULL);

CREATE FUNCTION abide.since() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  -- Another after each start, and after TRUNCATE or a restored table.
  this_run constant text := concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), pg_relation_filenode('abide.host'));
  began bigint;
BEGIN
  LOOP
    -- One that began in the future is of a time before the clock was set back.
    SELECT since INTO began FROM abide.run WHERE name = this_run AND since <= abide.micros();
    IF FOUND THEN RETURN began; END IF;
    INSERT INTO abide.run AS run (name, since) VALUES (this_run, abide.micros())
      ON CONFLICT (one) DO UPDATE SET name = excluded.name, since = excluded.since
      WHERE run.name <> excluded.name OR run.since > excluded.since;
  END LOOP;
END $$;

CREATE TYPE abide.reply AS (
  verdict text, wait bigint, quiet bigint, delay bigint, remaining bigint, over bigint, throttles int, cause text, is_new boolean
);

-- One exchange about a host: `HostEntry::exchange` of abide-gate, on the server's clock.
-- want: lease, held or release. Reported: quiet, delay; of a backoff what remains of it, since when it is
-- over, its throttle count and cause.
-- Replied: the verdict, and the same of all processes; and whether a row has come. A quiet or a remaining of
-- -1: there is none.
CREATE FUNCTION abide.exchange(
  name bytea, holder text, number bigint, want text, ttl bigint, again_in bigint,
  quiet bigint, delay bigint, remaining bigint, over bigint, throttles int, cause text
) RETURNS abide.reply LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  minute constant bigint := 60000000;
  hour constant bigint := 60 * minute;
  day constant bigint := 24 * hour;
  -- The longest backoff is 24 hours and its jitter, so one that ends later was dated by a wrong clock.
  credible constant bigint := 27 * hour;
  -- Throttle counts are forgiven 30 quiet minutes after the backoff.
  kept constant bigint := 30 * minute;
  waiting_max constant int := 64;
  -- Rows are kept until a multiple of this, so that most exchanges leave the index alone.
  kept_step constant bigint := 10 * minute;
  a_second constant bigint := 1000000;

  key constant text := abide.key(name);
  -- Before the row is locked: who waits for one of the two has not locked the other.
  known_since constant bigint := abide.since();
  is_new boolean := false;
  is_free boolean := false;
  now bigint;
  h abide.host;
  was abide.host;
  ahead bigint;
  ends bigint;
  grace bigint;
  blocked bigint := 0;
  place int;
  kept_until bigint;
  reply abide.reply;
BEGIN
  LOOP
    SELECT host.* INTO h FROM abide.host WHERE host.host = key FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO abide.host (host, since) VALUES (key, known_since) ON CONFLICT DO NOTHING;
    is_new := true;
  END LOOP;
  now := abide.micros();
  was := h;

  -- The clock was set back by so much: no time has passed since. Each value is within what a process can have
  -- written, or a row made by hand could keep a host for years.
  ahead := greatest(h.seen - now, 0);
  h.seen := now;
  h.last := least(greatest(h.last - ahead, 0), now);
  h.delay := least(h.delay, day);
  h.backoff := greatest(h.backoff - ahead, 0);
  h.leased_until := least(greatest(h.leased_until - ahead, 0), now + hour);
  IF ahead > 0 THEN
    h.waiting_until := ARRAY(SELECT least(u - ahead, now + hour) FROM unnest(h.waiting_until) WITH ORDINALITY AS w(u, n) ORDER BY n);
  END IF;

  -- What is reported. The later time, the longer delay and the higher count win. A time is at least 1,
  -- because 0 stands for none.
  IF quiet >= 0 THEN h.last := greatest(h.last, now - quiet, 1); END IF;
  h.delay := greatest(h.delay, exchange.delay);
  -- Before the report is merged: a stored end that is not credible must not win over a reported one that is.
  IF h.backoff > now + credible THEN h.backoff := now + day; END IF;
  IF now >= h.backoff + (CASE WHEN h.throttles > 0 THEN kept ELSE 0 END) THEN
    h.backoff := 0; h.throttles := 0; h.cause := 'none';
  END IF;
  ends := now - over + CASE WHEN remaining > credible THEN day ELSE remaining END;
  IF remaining >= 0 AND now < ends + (CASE WHEN exchange.throttles > 0 THEN kept ELSE 0 END) THEN
    -- Backoffs are only extended, by whichever process.
    IF ends > h.backoff THEN h.backoff := ends; h.cause := exchange.cause; END IF;
    h.throttles := greatest(h.throttles, exchange.throttles);
  END IF;

  -- The lease. One of before a loss is not believed; its holder asks again, and says that it has it.
  IF h.since <> known_since THEN
    h.holder := NULL; h.waiting := '{}'; h.waiting_until := '{}'; h.since := known_since;
  END IF;
  reply.verdict := 'released';
  reply.wait := 0;
  place := array_position(h.waiting, exchange.holder);
  IF want = 'release' THEN
    -- Unless it was taken again while this command was on its way. The number stays, for those that come
    -- later than this one.
    IF h.holder = exchange.holder AND h.number <= exchange.number THEN
      h.leased_until := 0;
      h.number := exchange.number;
      is_free := true;
    END IF;
  -- Unless the same process has given up the lease while this command was on its way.
  ELSIF h.holder IS DISTINCT FROM exchange.holder OR h.leased_until > 0 OR h.number <= exchange.number THEN
    grace := known_since + ttl;
    -- A lease that has ended by itself was never given up: its holder may have sent a request until then.
    IF h.leased_until <= now AND h.holder IS NOT NULL THEN
      -- The holder itself has just reported when it last sent.
      IF h.holder <> exchange.holder THEN h.last := greatest(h.last, h.leased_until); END IF;
      h.holder := NULL;
    END IF;
    -- A process that did not ask again in time has gone, and must not hold up those behind it.
    IF EXISTS (SELECT FROM unnest(h.waiting_until) AS u WHERE u <= now) THEN
      SELECT coalesce(array_agg(p ORDER BY n), '{}'), coalesce(array_agg(u ORDER BY n), '{}') INTO h.waiting, h.waiting_until
        FROM unnest(h.waiting, h.waiting_until) WITH ORDINALITY AS w(p, u, n) WHERE now < u;
      place := array_position(h.waiting, exchange.holder);
    END IF;
    IF h.holder IS NOT NULL THEN
      -- The holder gets it whenever it asks: its last reply may have been lost.
      IF h.holder <> exchange.holder THEN blocked := h.leased_until; END IF;
    ELSIF want = 'lease' AND now < grace THEN
      -- Within the grace only a process that says that it has the lease gets it.
      blocked := grace;
    ELSIF want = 'lease' AND cardinality(h.waiting) > 0 AND h.waiting[1] <> exchange.holder THEN
      -- Free, but kept for the first in line until its place ends, or the fastest process would get it each
      -- time.
      blocked := h.waiting_until[1];
    END IF;
    IF blocked <= now THEN
      -- Until the grace was over, a process may have sent a request under a lease that was lost.
      IF want = 'lease' THEN h.last := greatest(h.last, least(grace, now)); END IF;
      h.number := CASE WHEN h.holder = exchange.holder THEN greatest(h.number, exchange.number) ELSE exchange.number END;
      h.holder := exchange.holder;
      h.leased_until := now + ttl;
      reply.verdict := 'leased';
    ELSE
      place := coalesce(place, cardinality(h.waiting) + 1);
      -- A process beyond the bound is not in line; it asks again all the same.
      IF place <= waiting_max THEN
        h.waiting[place] := exchange.holder;
        h.waiting_until[place] := now + again_in;
      END IF;
      reply.verdict := CASE WHEN h.waiting[1] = exchange.holder THEN 'next' ELSE 'busy' END;
      reply.wait := blocked - now;
      place := NULL;
    END IF;
  END IF;
  -- Who has the lease, or has given it up, does not wait for it.
  IF place IS NOT NULL THEN
    h.waiting := h.waiting[:place - 1] || h.waiting[place + 1:];
    h.waiting_until := h.waiting_until[:place - 1] || h.waiting_until[place + 1:];
  END IF;
  IF reply.verdict = 'leased' AND cardinality(h.waiting) > 0 THEN reply.verdict := 'wanted'; END IF;
  IF is_free AND cardinality(h.waiting) > 0 THEN PERFORM pg_notify('abide', h.waiting[1] || ' ' || key); END IF;
  IF h.holder IS NULL THEN h.leased_until := 0; h.number := 0; END IF;

  -- It is kept for a minute longer than the host is in use. A holder that dies may have sent until its lease
  -- ended.
  kept_until := minute + greatest(h.last + h.delay, h.backoff + CASE WHEN h.throttles > 0 THEN kept ELSE 0 END,
    CASE WHEN h.holder IS NOT NULL THEN h.leased_until + h.delay END, (SELECT max(u) FROM unnest(h.waiting_until) AS u));
  h.kept_until := (kept_until / kept_step + 1) * kept_step;
  reply.is_new := is_new AND kept_until > now;
  IF kept_until <= now THEN
    DELETE FROM abide.host WHERE host.host = key;
  ELSE
    UPDATE abide.host AS t SET last = h.last, delay = h.delay, backoff = h.backoff, throttles = h.throttles, cause = h.cause, holder = h.holder,
      leased_until = h.leased_until, number = h.number, waiting = h.waiting, waiting_until = h.waiting_until, seen = h.seen, since = h.since,
      kept_until = h.kept_until
      WHERE t.host = key;
    -- A backoff is on disk before the reply. What its holder reports of it later differs by the time that a
    -- command takes.
    IF h.backoff - a_second > was.backoff OR h.throttles > was.throttles THEN
      PERFORM set_config('synchronous_commit', (SELECT reset_val FROM pg_settings WHERE pg_settings.name = 'synchronous_commit'), true);
    END IF;
  END IF;

  reply.quiet := CASE WHEN h.last > 0 THEN now - h.last ELSE -1 END;
  reply.delay := h.delay;
  reply.remaining := CASE WHEN h.backoff > 0 THEN greatest(h.backoff - now, 0) ELSE -1 END;
  reply.over := CASE WHEN h.backoff > 0 THEN greatest(now - h.backoff, 0) ELSE 0 END;
  reply.throttles := h.throttles;
  reply.cause := h.cause;
  RETURN reply;
END $$;

-- Several exchanges of one process, in the order of what is asked. Callers sort them by host, so that no two
-- calls wait for each other.
-- A row that somebody else has locked is not waited for longer than this: the calls of a process wait in one
-- line.
CREATE FUNCTION abide.exchanges(
  names bytea[], holders text[], numbers bigint[], wants text[], ttls bigint[], agains_in bigint[],
  quiets bigint[], delays bigint[], remainings bigint[], overs bigint[], throttles int[], causes text[]
) RETURNS SETOF abide.reply LANGUAGE plpgsql SET lock_timeout = '250ms' AS $$
DECLARE
  ask record;
  reply abide.reply;
  new_hosts int := 0;
  now bigint;
BEGIN
  -- What is lost of a renewal costs a pause, and the disk would cost each of them some milliseconds.
  PERFORM set_config('synchronous_commit', 'off', true);
  FOR ask IN
    SELECT * FROM unnest(names, holders, numbers, wants, ttls, agains_in, quiets, delays, remainings, overs, throttles, causes)
      AS a(name, holder, number, want, ttl, again_in, quiet, delay, remaining, over, throttles, cause)
  LOOP
    reply := abide.exchange(ask.name, ask.holder, ask.number, ask.want, ask.ttl, ask.again_in,
      ask.quiet, ask.delay, ask.remaining, ask.over, ask.throttles, ask.cause);
    RETURN NEXT reply;
    IF reply.is_new THEN new_hosts := new_hosts + 1; END IF;
  END LOOP;
  -- For each host that comes, two go that are no longer in use. Their rows are in no order, so they go last:
  -- who has locked one of them waits for no other.
  now := abide.micros();
  FOR n IN 1..new_hosts LOOP
    DELETE FROM abide.host WHERE host = ANY (ARRAY(
      SELECT t.host FROM abide.host AS t WHERE t.kept_until <= now ORDER BY t.kept_until LIMIT 2 FOR UPDATE SKIP LOCKED));
  END LOOP;
END $$;

-- For queries of your own: when each host is free for any process, and who has it now. A host that is not
-- here is free. A lease counts as a request at its end, as in the exchange of another process: its holder may
-- have died, and have sent until then.
CREATE VIEW abide.hosts AS
  SELECT host, abide.at(greatest(greatest(last, leased_until) + delay, backoff)) AS free_at,
    CASE WHEN backoff > 0 THEN abide.at(backoff) END AS backed_off_until,
    CASE WHEN leased_until > abide.micros() THEN holder END AS holder
  FROM abide.host;

-- Records of robots.txt, in abide's own format. So many bytes before the last four are the text of the site.
CREATE TABLE abide.robots (
  origin text PRIMARY KEY,
  record bytea NOT NULL,
  text_length int NOT NULL,
  asked_at bigint NOT NULL,
  saved_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX robots_asked_at ON abide.robots (asked_at);
CREATE INDEX robots_saved_at ON abide.robots (saved_at);

CREATE VIEW abide.robots_txt AS
  SELECT origin, saved_at, substring(record FROM length(record) - 3 - text_length FOR text_length) AS text FROM abide.robots;

-- Records of permissions, as JSON in UTF-8.
CREATE TABLE abide.permissions (
  url text PRIMARY KEY,
  record bytea NOT NULL,
  received_at bigint NOT NULL
);

-- Versions of pages, for crawlers that ask for a page again: whatever they keep.
CREATE TABLE abide.pages (
  url text PRIMARY KEY,
  version bytea NOT NULL,
  saved_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX pages_saved_at ON abide.pages (saved_at);
