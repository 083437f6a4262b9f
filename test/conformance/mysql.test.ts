import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { mysqlSubject } from '../support/conformance/mysql-subject.ts';

describeConformance('MySQL', mysqlSubject());
