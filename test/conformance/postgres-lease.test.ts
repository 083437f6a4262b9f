import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { postgresSubject } from '../support/conformance/postgres-subject.ts';

describeConformance('PostgreSQL leases under pg', postgresSubject('pg.Pool'));
describeConformance('PostgreSQL leases under postgres.js', postgresSubject('postgres.js'));
