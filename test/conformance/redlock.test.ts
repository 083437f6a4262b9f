import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { redlockSubject } from '../support/conformance/redlock-subject.ts';

describeConformance('Redlock over five nodes under ioredis', redlockSubject('ioredis'));
describeConformance('Redlock over three nodes under node-redis', redlockSubject('node-redis', 3));
