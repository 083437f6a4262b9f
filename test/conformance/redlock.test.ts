import { describeConformance } from '../support/conformance.ts';
import { redlockSubject } from '../support/redlock-subject.ts';

describeConformance('Redlock over five nodes under ioredis', redlockSubject('ioredis'));
describeConformance('Redlock over three nodes under node-redis', redlockSubject('node-redis', 3));
