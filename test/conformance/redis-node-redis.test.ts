import { describeConformance } from '../support/conformance.ts';
import { redisSubject } from '../support/redis-subject.ts';

describeConformance('Redis under node-redis', redisSubject('node-redis'));
